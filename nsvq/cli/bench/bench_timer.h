#pragma once

#include <c10/core/Device.h>
#include <torch/types.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace nsvq {

/// Time and memory of a piece of work.
struct Taken {
  double milliseconds = 0;
  /// Peak memory in addition to what was allocated before. Measured on a GPU only.
  std::optional<int64_t> peak_bytes;
};

/// What benchmarks of training steps share on the command line.
struct StepBenchArguments {
  int rounds = 10;
  int kernels = 0;  ///< longest kernels to show; 0: no profile
  double peak = 0;  ///< TFLOP/s of the device; 0: not given
};

/// --rounds, --kernels and --peak-tflops.
void declare_step_bench_arguments(CLI::App& app, StepBenchArguments& arguments);

/// Throws UserError for a profile of a device that has none.
void require_kernels(int kernels, c10::Device device);

/// Results of the plain version and of ours; empty if out of memory.
struct Comparison {
  std::optional<Taken> plain, ours;
};

using Work = std::function<void()>;

/// Times both alternately, so that other load affects them equally: medians over `rounds`, after a
/// warm-up call of each.
Comparison compare(const Work& plain, const Work& ours, c10::Device device, int rounds);

/// The median over `rounds` of one piece of work, after a warm-up call; empty if out of memory.
std::optional<Taken> time_work(const Work& work, c10::Device device, int rounds);

/// Mean wall-clock time of `calls` calls in a row, including the host's work between them.
double mean_milliseconds(const Work& work, c10::Device device, int calls);

/// Random images [batch, 3, size, size] with a fixed seed.
torch::Tensor random_images(int64_t batch, int64_t size, c10::Device device);

/// ", 50 % of 790", or an empty text if `peak` is 0.
std::string share_of_peak(double tflops, double peak);

/// Bytes per second, read plus written, of a copy between tensors.
double copy_bandwidth(c10::Device device, int rounds);

}  // namespace nsvq
