#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <string>

namespace nsvq {

/// What convolutions and matrix products of the trained and the perceptual networks are computed
/// in. Quantizers, sums of losses and figures are fp32 whatever it is (two exceptions:
/// docs/training.md).
enum class Precision { fp32, tf32, bf16, fp16 };

/// The precision that train.precision means on a device: "auto" is bf16 on a GPU and fp32 on a CPU.
/// Throws UserError for one that the device lacks.
Precision choose_precision(const std::string& name, c10::Device device);

/// "fp32", "tf32", ...
std::string name_of(Precision precision);

/// Half precision as fp32; anything else as it is.
at::Tensor widened(const at::Tensor& tensor);

/// What a GPU may do with fp32 rounded to TF32 (10 bits).
enum class Tf32Work { convolutions, products };

/// While it lives, such work of the process may round, or may not.
class Tf32 {
 public:
  Tf32(Tf32Work work, bool allow);
  ~Tf32();
  Tf32(const Tf32&) = delete;
  Tf32& operator=(const Tf32&) = delete;

  static bool allowed(Tf32Work work);

 private:
  Tf32Work work_;
  bool was_allowed_;
};

/// While it lives, this thread casts a weight once for all batches: for inference, where weights do
/// not change.
class KeptCasts {
 public:
  KeptCasts();
  ~KeptCasts();
  KeptCasts(const KeptCasts&) = delete;
  KeptCasts& operator=(const KeptCasts&) = delete;
};

/// What a Casting that lives in this thread rounds to; fp32 without one.
Precision casting_precision(c10::Device device);

/// While it lives, this thread's convolutions and matrix products on `device` take their inputs in
/// bf16 or fp16, if that is the precision; fp32 and tf32 change nothing here.
class Casting {
 public:
  Casting(Precision precision, c10::Device device);
  ~Casting();
  Casting(const Casting&) = delete;
  Casting& operator=(const Casting&) = delete;

 private:
  c10::DeviceType device_;
  bool was_enabled_;
  at::ScalarType was_type_;
};

}  // namespace nsvq
