#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>

#include "nsvq/core/fp32.h"

namespace nsvq {

/// The precision of convolutions and matrix products in the trained networks and in the perceptual
/// ones. Quantizers, losses and metrics always use fp32 (docs/training.md lists two exceptions).
enum class Precision { fp32, tf32, bf16, fp16 };

/// The precision for the setting train.precision: "auto" is bf16 on a GPU and fp32 on a CPU. Throws
/// UserError if the device does not support it.
Precision choose_precision(const std::string& name, c10::Device device);

/// "fp32", "tf32", ...
std::string name_of(Precision precision);

/// Guard: keeps autocast's cache of cast weights alive in this thread across batches. For
/// inference, where weights do not change.
class AutocastCacheGuard {
 public:
  AutocastCacheGuard();
  ~AutocastCacheGuard();
  AutocastCacheGuard(const AutocastCacheGuard&) = delete;
  AutocastCacheGuard& operator=(const AutocastCacheGuard&) = delete;
};

/// A weight as autocast casts it for a product, from autocast's cache, which holds no views.
at::Tensor autocast_weight(const at::Tensor& weight);

/// The autocast precision in effect in this thread; fp32 if autocast is off.
Precision autocast_precision(c10::Device device);

/// Guard: autocast to bf16 or fp16 on `device` in this thread; fp32 and tf32 turn autocast off.
class AutocastGuard {
 public:
  AutocastGuard(Precision precision, c10::Device device);
  ~AutocastGuard();
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  c10::DeviceType device_;
  bool was_enabled_;
  at::ScalarType was_type_;
};

/// Process-wide settings of torch.
struct TorchSettings {
  int64_t threads = 0;        ///< for torch's CPU operators; 0: default_threads()
  bool deterministic = true;  ///< cuDNN algorithms whose results repeat, not the fastest by trial
  bool tf32_convolutions = false;  ///< fp32 convolutions on a GPU may round to TF32
  bool inference = false;          ///< no gradients are computed: oneDNN is fast on aarch64 then
};

/// Guard: sets torch's process-wide flags, and restores on destruction the values that it found.
/// TF32 for fp32 matrix products is not among them: it stays off, and quantizers decide where they
/// round.
class TorchFlags {
 public:
  explicit TorchFlags(const TorchSettings& settings);
  ~TorchFlags();
  TorchFlags(const TorchFlags&) = delete;
  TorchFlags& operator=(const TorchFlags&) = delete;

 private:
  int threads_;
  bool deterministic_, benchmark_, onednn_, nnpack_, tf32_convolutions_;
};

}  // namespace nsvq
