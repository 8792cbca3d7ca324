#pragma once

#include <cstdint>

namespace nsvq {

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
