#include "nsvq/core/device.h"

#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <regex>
#include <thread>
#include <utility>

#include "nsvq/core/environment.h"
#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/core/threads/core_use.h"

namespace nsvq {

namespace {

double in_gib(int64_t bytes) { return static_cast<double>(bytes) / (int64_t{1} << 30); }

}  // namespace

c10::Device choose_device(const std::string& name, int local_rank) {
  if (name == "cpu") return c10::Device(c10::kCPU);
  if (const int gpus = gpu_count(); gpus > 0) {
    const int index = local_rank % gpus;
    if (index > 0) use_gpu(index);
    return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(index));
  }
  if (name == "cuda")
    throw UserError("CUDA is not available: {}; use device=cpu (in other commands --device cpu)",
                    why_no_gpu());
  return c10::Device(c10::kCPU);
}

std::string describe(c10::Device device) {
  if (!device.is_cpu()) return gpu_name(device);
  const int threads = at::get_num_threads();
  return "cpu, " + count_of(threads, "thread");
}

double peak_memory(c10::Device device) {
  if (device.is_cuda()) return in_gib(gpu_peak_memory(device));
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return in_gib(usage.ru_maxrss * 1024);  // ru_maxrss is in KiB
}

std::optional<double> peak_reserved_memory(c10::Device device) {
  if (!device.is_cuda()) return std::nullopt;
  return in_gib(gpu_peak_reserved_memory(device));
}

void wait_for(c10::Device device) {
  if (device.is_cpu()) return;
  c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

int usable_cores() {
  const int bound_to = CPU_COUNT(&own_cores());
  const int cores =
      bound_to > 0 ? bound_to : std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);
  std::ifstream limit("/sys/fs/cgroup/cpu.max");  // "QUOTA PERIOD" in microseconds, or "max PERIOD"
  double quota = 0, period = 0;
  if (!(limit >> quota >> period) || period <= 0) return cores;
  return std::clamp(static_cast<int>(quota / period), 1, cores);
}

int default_threads(int processes) {
  const auto text = environment_text("OMP_NUM_THREADS").value_or("");
  // Further numbers are for nested threads.
  const auto asked = parse_decimal(text.substr(0, text.find(','))).value_or(0);
  const bool by_launcher = asked == 1 && processes > 1 && environment_text("TORCHELASTIC_RUN_ID");
  if (asked >= 1 && asked <= kMostThreads && !by_launcher) return static_cast<int>(asked);
  return std::max(usable_cores() / std::max(processes, 1), 1);
}

bool is_out_of_memory(const std::string& error) {
  return error.find("out of memory") != std::string::npos ||
         error.find("can't allocate memory") != std::string::npos ||
         error.find("not enough memory") != std::string::npos ||
         error.find("bad_alloc") != std::string::npos;
}

namespace {

std::string first_match(const std::string& text, const char* pattern) {
  std::smatch match;
  return std::regex_search(text, match, std::regex(pattern)) ? match[1].str() : "";
}

/// "20.00 MiB" in GiB.
std::optional<double> read_size(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const std::string units = "KMGT";  // GiB are 1
  const auto unit = units.find(text[text.find(' ') + 1]);
  const double power = unit == std::string::npos ? -3 : static_cast<double>(unit) - 2;
  return std::stod(text) * std::pow(1024, power);
}

constexpr auto kAskedOfGpu = "Tried to allocate ([0-9.]+ [KMGT]?i?B)";
constexpr auto kAskedOfCpu = "tried to allocate ([0-9]{1,18}) bytes";

}  // namespace

OutOfMemory read_out_of_memory(const std::string& error) {
  OutOfMemory read;
  read.asked = read_size(first_match(error, kAskedOfGpu));
  read.gpu = read.asked.has_value();
  if (read.gpu) {
    read.used = read_size(
        first_match(error, "Of the allocated memory ([0-9.]+ [KMGT]?i?B) is allocated by PyTorch"));
  } else if (const auto bytes = first_match(error, kAskedOfCpu); !bytes.empty()) {
    read.asked = in_gib(std::stoll(bytes));
  }
  return read;
}

std::string describe_out_of_memory(const std::string& error) {
  const auto asked = first_match(error, kAskedOfGpu);
  const auto total = first_match(error, "total capacity of ([0-9.]+ [KMGT]?i?B)");
  const auto free = first_match(error, "of which ([0-9.]+ [KMGT]?i?B) is free");
  const auto bytes = first_match(error, kAskedOfCpu);
  std::string text = asked.empty() ? "out of memory" : "out of memory on the GPU";
  if (!asked.empty()) text += fmt::format(": {} asked for", asked);
  if (!free.empty()) text += fmt::format(", {} free of {}", free, total);
  if (!bytes.empty()) text += fmt::format(": {:.2f} GiB asked for", in_gib(std::stoll(bytes)));
  return text;
}

namespace {

thread_local TensorBudget* innermost = nullptr;

}  // namespace

/// Charges this thread's budget and calls torch's own allocator. It stays installed: a tensor keeps
/// a pointer to its allocator, to grow by it.
class TensorBudget::Allocator final : public c10::Allocator {
 public:
  static void install() {
    static Allocator* const allocator = [] {
      auto* made = new Allocator(c10::GetCPUAllocator());  // never freed, see above
      c10::SetCPUAllocator(made);
      return made;
    }();
    static_cast<void>(allocator);
  }

  c10::DataPtr allocate(size_t bytes) override {
    if (innermost) innermost->take(bytes);
    return below_->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return below_->raw_deleter(); }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    below_->copy_data(to, from, bytes);
  }

 private:
  explicit Allocator(c10::Allocator* below) : below_(below) {}

  c10::Allocator* below_;
};

TensorBudget::TensorBudget(uint64_t bytes, std::string message)
    : left_(bytes), message_(std::move(message)), outer_(innermost) {
  Allocator::install();
  innermost = this;
}

TensorBudget::~TensorBudget() { innermost = outer_; }

void TensorBudget::take(uint64_t bytes) {
  if (bytes > left_) throw UserError("{}", message_);
  left_ -= bytes;
}

HostCopy::HostCopy(const torch::Tensor& tensor) : host_(tensor) {
  if (tensor.is_cpu()) return;
  const auto device = tensor.device();
  // Pinned: a copy to pageable memory would block the host.
  host_ = at::empty(tensor.sizes(), at::TensorOptions(tensor.scalar_type()).pinned_memory(true));
  host_.copy_(tensor, /*non_blocking=*/true);
  arrived_.emplace(device.type());
  arrived_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

torch::Tensor HostCopy::get() const {
  if (arrived_) arrived_->synchronize();
  return host_;
}

}  // namespace nsvq
