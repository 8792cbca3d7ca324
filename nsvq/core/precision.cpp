#include "nsvq/core/precision.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>

#include <array>
#include <utility>

#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/threads/shared_cores.h"

namespace nsvq {

namespace {

constexpr std::array<std::pair<const char*, Precision>, 4> kPrecisions = {
    {{"fp32", Precision::fp32},
     {"tf32", Precision::tf32},
     {"bf16", Precision::bf16},
     {"fp16", Precision::fp16}}};

}  // namespace

Precision choose_precision(const std::string& name, c10::Device device) {
  if (name == "auto") return device.is_cpu() ? Precision::fp32 : Precision::bf16;
  for (const auto& [known, precision] : kPrecisions) {
    if (name != known) continue;
    if (device.is_cpu() && (precision == Precision::tf32 || precision == Precision::fp16)) {
      throw UserError("train.precision: {} needs a GPU; on a CPU use fp32 or bf16", name);
    }
    return precision;
  }
  throw UserError("train.precision: unknown value '{}' (one of auto, fp32, tf32, bf16, fp16)",
                  name);
}

std::string name_of(Precision precision) {
  for (const auto& [name, known] : kPrecisions) {
    if (known == precision) return name;
  }
  return "";
}

AutocastCacheGuard::AutocastCacheGuard() { at::autocast::increment_nesting(); }

AutocastCacheGuard::~AutocastCacheGuard() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
}

at::Tensor autocast_weight(const at::Tensor& weight) {
  const auto device = weight.device().type();
  if (!at::autocast::is_autocast_enabled(device)) return weight;
  return at::autocast::cached_cast(at::autocast::get_autocast_dtype(device), weight, device);
}

Precision autocast_precision(c10::Device device) {
  if (!at::autocast::is_autocast_enabled(device.type())) return Precision::fp32;
  const bool half = at::autocast::get_autocast_dtype(device.type()) == at::kHalf;
  return half ? Precision::fp16 : Precision::bf16;
}

AutocastGuard::AutocastGuard(Precision precision, c10::Device device)
    : device_(device.type()),
      was_enabled_(at::autocast::is_autocast_enabled(device_)),
      was_type_(at::autocast::get_autocast_dtype(device_)) {
  const bool casts = precision == Precision::bf16 || precision == Precision::fp16;
  at::autocast::increment_nesting();
  at::autocast::set_autocast_enabled(device_, casts);
  if (casts) {
    at::autocast::set_autocast_dtype(device_,
                                     precision == Precision::bf16 ? at::kBFloat16 : at::kHalf);
  }
}

AutocastGuard::~AutocastGuard() {
  // Autocast caches casts of the weights; the optimizer makes them stale.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, was_enabled_);
  at::autocast::set_autocast_dtype(device_, was_type_);
}

TorchFlags::TorchFlags(const TorchSettings& settings)
    : threads_(at::get_num_threads()),
      deterministic_(at::globalContext().deterministicCuDNN()),
      benchmark_(at::globalContext().benchmarkCuDNN()),
      onednn_(at::globalContext().userEnabledMkldnn()),
      nnpack_(at::globalContext().userEnabledNNPACK()),
      tf32_convolutions_(at::globalContext().allowTF32CuDNN()) {
  set_compute_threads(settings.threads > 0 ? static_cast<int>(settings.threads)
                                           : default_threads());
  auto& context = at::globalContext();
  context.setDeterministicCuDNN(settings.deterministic);
  context.setBenchmarkCuDNN(!settings.deterministic);
  context.setAllowTF32CuDNN(settings.tf32_convolutions);
#if defined(__aarch64__)
  // On aarch64 oneDNN computes gradients of convolutions with its slow reference matrix product,
  // and NNPACK's threads spin while they wait, which turns seconds into minutes when other programs
  // use the cores (bench/convolution.py).
  context.setUserEnabledMkldnn(settings.inference);
  context.setUserEnabledNNPACK(false);
#endif
}

TorchFlags::~TorchFlags() {
  set_compute_threads(threads_);
  auto& context = at::globalContext();
  context.setDeterministicCuDNN(deterministic_);
  context.setBenchmarkCuDNN(benchmark_);
  context.setAllowTF32CuDNN(tf32_convolutions_);
  context.setUserEnabledMkldnn(onednn_);
  context.setUserEnabledNNPACK(nnpack_);
}

}  // namespace nsvq
