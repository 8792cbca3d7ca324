#pragma once

#include <c10/core/Device.h>
#include <torch/types.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/io/formats/json.h"

namespace nsvq {

using Work = std::function<void()>;

/// Time and memory of a piece of work.
struct Taken {
  double milliseconds = 0;
  /// Peak memory in addition to what was allocated before. Measured on a GPU only.
  std::optional<int64_t> peak_bytes;
};

/// Times one piece of work over several rounds, after a warm-up call.
class TimedWork {
 public:
  TimedWork(Work work, c10::Device device);
  void measure();                 ///< one round
  std::optional<Taken> result();  ///< the median; nullopt if out of memory

 private:
  Work work_;
  c10::Device device_;
  std::optional<int64_t> peak_bytes_;
  int repeats_ = 0;  ///< calls in a round; 0 if out of memory
  std::vector<double> milliseconds_;
};

/// The median over `rounds`; nullopt if out of memory.
std::optional<Taken> time_work(const Work& work, c10::Device device, int rounds);

/// Mean wall-clock time of `calls` calls in a row, including the host's work between them.
double mean_milliseconds(const Work& work, c10::Device device, int calls);

/// Random images [batch, 3, size, size] with a fixed seed.
torch::Tensor random_images(int64_t batch, int64_t size, c10::Device device);

/// Peak memory of the process so far.
struct MemoryUse {
  explicit MemoryUse(c10::Device device);
  std::string text() const;  ///< "1.25 GiB at most, 2.00 GiB reserved"
  void add_to(Json& json) const;

  double peak_gib;
  std::optional<double> reserved_gib;
};

/// What nsvq_bench measures beyond time and memory (bench/profile.h). `nsvq bench` has this one,
/// which measures nothing.
class BenchProbe {
 public:
  virtual ~BenchProbe() = default;

  /// Adds its options.
  virtual void declare(CLI::App&) {}
  /// Throws UserError for options that the device cannot serve.
  virtual void check(c10::Device) const {}
  /// Calls the work once and counts its FLOPs.
  virtual void call_once(const Work& work) { work(); }
  /// Prints and keeps the rate of the counted FLOPs; a call makes so many `unit`s ("image").
  virtual void show_rate(double /*milliseconds*/, int64_t /*units*/, const std::string& /*unit*/,
                         Json&) {}
  /// Prints and keeps the times of the work's kernels.
  virtual void show_kernels(const Work&, c10::Device, Json&) {}
};

using SharedProbe = std::shared_ptr<BenchProbe>;

void declare_rounds_argument(CLI::App& app, int& rounds);
void declare_bench_step(CLI::App& app, const SharedProbe& probe);
void declare_bench_tokenize(CLI::App& app, const SharedProbe& probe);

}  // namespace nsvq
