#include "nsvq/core/fp32.h"

#include <ATen/Context.h>

namespace nsvq {

namespace {

void allow_tf32(Tf32Work work, bool allow) {
  auto& context = at::globalContext();
  if (work == Tf32Work::convolutions) {
    context.setAllowTF32CuDNN(allow);
  } else {
    context.setAllowTF32CuBLAS(allow);
  }
}

}  // namespace

at::Tensor at_least_fp32(const at::Tensor& tensor) {
  const bool half = tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
  return half ? tensor.to(at::kFloat) : tensor;
}

Tf32Guard::Tf32Guard(Tf32Work work, bool allow) : work_(work), was_allowed_(allowed(work)) {
  allow_tf32(work_, allow);
}

Tf32Guard::~Tf32Guard() { allow_tf32(work_, was_allowed_); }

bool Tf32Guard::allowed(Tf32Work work) {
  const auto& context = at::globalContext();
  return work == Tf32Work::convolutions ? context.allowTF32CuDNN() : context.allowTF32CuBLAS();
}

}  // namespace nsvq
