#pragma once

#include <ATen/core/Tensor.h>

namespace nsvq {

/// fp16 and bf16 tensors converted to fp32; other types unchanged.
at::Tensor at_least_fp32(const at::Tensor& tensor);

/// The fp32 operations of a GPU for which TF32 (10-bit mantissa) can be allowed.
enum class Tf32Work { convolutions, products };

/// Guard: allows or forbids TF32 for such operations in the whole process, and restores the earlier
/// setting on destruction.
class Tf32Guard {
 public:
  Tf32Guard(Tf32Work work, bool allow);
  ~Tf32Guard();
  Tf32Guard(const Tf32Guard&) = delete;
  Tf32Guard& operator=(const Tf32Guard&) = delete;

  static bool allowed(Tf32Work work);

 private:
  Tf32Work work_;
  bool was_allowed_;
};

}  // namespace nsvq
