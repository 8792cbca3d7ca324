#include "nsvq/cli/bench/bench.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "nsvq/core/device.h"
#include "nsvq/io/formats/json.h"

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

}  // namespace

TimedWork::TimedWork(Work work, c10::Device device) : work_(std::move(work)), device_(device) {
  try {
    peak_bytes_ = peak_bytes_of(work_, device);
    const double once = std::max(milliseconds_of(work_, device, 1), 1e-4);
    repeats_ = static_cast<int>(std::clamp(std::ceil(kLeastMilliseconds / once), 1., 1000.));
  } catch (const c10::OutOfMemoryError&) {
    at::getDeviceAllocator(device.type())->emptyCache();
  }
}

void TimedWork::measure() {
  if (repeats_ > 0) milliseconds_.push_back(milliseconds_of(work_, device_, repeats_));
}

std::optional<Taken> TimedWork::result() {
  if (repeats_ == 0) return std::nullopt;
  std::sort(milliseconds_.begin(), milliseconds_.end());
  return Taken{milliseconds_[milliseconds_.size() / 2], peak_bytes_};
}

std::optional<Taken> time_work(const Work& work, c10::Device device, int rounds) {
  TimedWork timed(work, device);
  for (int i = 0; i < rounds; ++i) timed.measure();
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

MemoryUse::MemoryUse(c10::Device device)
    : peak_gib(peak_memory(device)), reserved_gib(peak_reserved_memory(device)) {}

std::string MemoryUse::text() const {
  return fmt::format("{:.2f} GiB at most", peak_gib) +
         (reserved_gib ? fmt::format(", {:.2f} GiB reserved", *reserved_gib) : "");
}

void MemoryUse::add_to(Json& json) const {
  json["peak_gib"] = peak_gib;
  if (reserved_gib) json["peak_reserved_gib"] = *reserved_gib;
}

void declare_rounds_argument(CLI::App& app, int& rounds) {
  app.add_option("--rounds", rounds, "measurements of each; medians are shown")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

}  // namespace nsvq
