#pragma once

#include <c10/core/Device.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace nsvq {

/// What a piece of work took.
struct Taken {
  double milliseconds = 0;
  /// The most memory it held at a time beside what was there before. On a GPU alone.
  std::optional<int64_t> peak_bytes;
};

/// Of the plain version and of ours; nothing where memory did not suffice.
struct Comparison {
  std::optional<Taken> plain, ours;
};

using Work = std::function<void()>;

/// Both in turns, so that other load meets them alike: medians over `rounds`, after one call each
/// to warm up.
Comparison compare(const Work& plain, const Work& ours, c10::Device device, int rounds);

/// One alone, likewise; nothing where memory does not suffice.
std::optional<Taken> time_work(const Work& work, c10::Device device, int rounds);

/// The mean of so many calls in a row, by the clock: with what the host does between them.
double mean_milliseconds(const Work& work, c10::Device device, int calls);

/// What networks are timed on: [batch, 3, size, size], the same values every time.
torch::Tensor random_images(int64_t batch, int64_t size, c10::Device device);

/// ", 50 % of 790", or nothing where the peak is not known.
std::string share_of_peak(double tflops, double peak);

/// Bytes a second that copying from tensor to tensor reads and writes.
double copy_bandwidth(c10::Device device, int rounds);

}  // namespace nsvq
