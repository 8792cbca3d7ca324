#include "nsvq/cli/bench/bench_timer.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "nsvq/cli/arguments/number_argument.h"
#include "nsvq/core/device.h"
#include "nsvq/core/error.h"

namespace nsvq {

namespace {

/// Short work is repeated for at least this long per sample, because of the clock's resolution and
/// the launch latency of an idle GPU.
constexpr double kLeastMilliseconds = 10;

/// Milliseconds of one call, as the mean of `repeats` calls.
double milliseconds_of(const Work& work, c10::Device device, int repeats) {
  const auto repeat = [&] {
    for (int i = 0; i < repeats; ++i) work();
  };
  if (device.is_cpu()) {
    const auto start = std::chrono::steady_clock::now();
    repeat();
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - start;
    return taken.count() / repeats;
  }
  const auto stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  c10::Event start(device.type(), c10::EventFlag::BACKEND_DEFAULT);
  c10::Event end(device.type(), c10::EventFlag::BACKEND_DEFAULT);
  start.record(stream);
  repeat();
  end.record(stream);
  end.synchronize();
  return start.elapsedTime(end) / repeats;
}

std::optional<int64_t> peak_bytes_of(const Work& work, c10::Device device) {
  if (device.is_cpu()) {
    work();
    return {};
  }
  auto* allocator = at::getDeviceAllocator(device.type());
  const auto allocated = [&] {
    return allocator->getDeviceStats(device.index())
        .allocated_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
  };
  allocator->resetPeakStats(device.index());
  const auto before = allocated().current;
  work();
  return allocated().peak - before;
}

/// Times one piece of work over several rounds.
class TimedWork {
 public:
  TimedWork(const Work& work, c10::Device device) : work_(work), device_(device) {
    try {
      peak_bytes_ = peak_bytes_of(work, device);
      const double once = std::max(milliseconds_of(work, device, 1), 1e-4);
      repeats_ = static_cast<int>(std::clamp(std::ceil(kLeastMilliseconds / once), 1., 1000.));
    } catch (const c10::OutOfMemoryError&) {
      at::getDeviceAllocator(device.type())->emptyCache();
    }
  }

  void take() {
    if (repeats_ > 0) milliseconds_.push_back(milliseconds_of(work_, device_, repeats_));
  }

  std::optional<Taken> result() {
    if (repeats_ == 0) return {};
    std::sort(milliseconds_.begin(), milliseconds_.end());
    return Taken{milliseconds_[milliseconds_.size() / 2], peak_bytes_};
  }

 private:
  Work work_;
  c10::Device device_;
  std::optional<int64_t> peak_bytes_;
  int repeats_ = 0;  ///< 0 if out of memory
  std::vector<double> milliseconds_;
};

}  // namespace

void declare_step_bench_arguments(CLI::App& app, StepBenchArguments& arguments) {
  app.add_option("--peak-tflops", arguments.peak,
                 "TFLOP/s of the device in matrix products; the share reached is shown")
      ->check(check_number(Range::above(0)));
  app.add_option("--rounds", arguments.rounds, "measurements of each; medians are shown")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--kernels", arguments.kernels,
                 "profile a GPU: times by kind of kernel, and of the N longest kernels")
      ->check(CLI::Range(1, 1000));
}

void require_kernels(int kernels, c10::Device device) {
  if (kernels > 0 && device.is_cpu()) {
    throw UserError("--kernels needs a GPU, but the device is the CPU; leave it out");
  }
}

Comparison compare(const Work& plain, const Work& ours, c10::Device device, int rounds) {
  TimedWork of_plain(plain, device), of_ours(ours, device);
  for (int round = 0; round < rounds; ++round) {
    of_plain.take();
    of_ours.take();
  }
  return {of_plain.result(), of_ours.result()};
}

std::optional<Taken> time_work(const Work& work, c10::Device device, int rounds) {
  TimedWork timed(work, device);
  for (int i = 0; i < rounds; ++i) timed.take();
  return timed.result();
}

double mean_milliseconds(const Work& work, c10::Device device, int calls) {
  work();
  wait_for(device);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) work();
  wait_for(device);
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
  return taken.count() / calls;
}

torch::Tensor random_images(int64_t batch, int64_t size, c10::Device device) {
  torch::manual_seed(0);
  return (at::rand({batch, 3, size, size}) * 2 - 1).to(device);
}

std::string share_of_peak(double tflops, double peak) {
  return peak > 0 ? fmt::format(", {:.0f} % of {:g}", 100 * tflops / peak, peak) : "";
}

double copy_bandwidth(c10::Device device, int rounds) {
  const int64_t bytes = int64_t{1} << (device.is_cpu() ? 27 : 30);
  const auto from = at::ones({bytes}, at::TensorOptions(device).dtype(at::kByte));
  const auto to = at::empty_like(from);
  TimedWork samples([&] { to.copy_(from); }, device);
  for (int round = 0; round < rounds; ++round) samples.take();
  return 2.0 * static_cast<double>(bytes) / (samples.result()->milliseconds / 1e3);
}

}  // namespace nsvq
