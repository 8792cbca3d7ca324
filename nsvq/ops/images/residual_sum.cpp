#include "nsvq/ops/images/residual_sum.h"

#include <torch/library.h>
#include <torch/types.h>

#include "nsvq/ops/common/dispatch.h"
#include "nsvq/ops/common/layout.h"
#include "nsvq/ops/common/optional_tensor.h"

namespace nsvq {

namespace {

using torch::Tensor;

Tensor residual_sum_cpu(const Tensor& x, const OptionalTensor& h, const OptionalTensor& offset,
                        int64_t form) {
  check_residual(x, tensor_of(h), tensor_of(offset));
  // No operator returns its input.
  const auto sum =
      residual_sum_reference(x, tensor_of(h), tensor_of(offset), static_cast<SumForm>(form));
  return sum.is_same(x) ? sum.clone() : sum;
}

}  // namespace

void check_residual(const Tensor& x, const Tensor& h, const Tensor& offset) {
  TORCH_CHECK(x.dim() == 4 && has_kernels_type(x),
              "residual_sum: x must be [N, C, H, W] in fp32, bf16 or fp16, but it is ", x.sizes(),
              " in ", x.scalar_type());
  TORCH_CHECK(!h.defined() || (h.sizes() == x.sizes() && h.scalar_type() == x.scalar_type() &&
                               h.device() == x.device()),
              "residual_sum: h must be ", x.sizes(), " in ", x.scalar_type(), " on ", x.device(),
              ", but it is ", h.sizes(), " in ", h.scalar_type(), " on ", h.device());
  TORCH_CHECK(
      !offset.defined() ||
          (offset.dim() == 1 && offset.size(0) == x.size(1) && offset.device() == x.device() &&
           (offset.scalar_type() == at::kFloat || offset.scalar_type() == x.scalar_type())),
      "residual_sum: offset must be [", x.size(1), "] in fp32 or ", x.scalar_type(), " on ",
      x.device(), ", but it is ", offset.sizes(), " in ", offset.scalar_type(), " on ",
      offset.device());
}

Tensor residual_sum_reference(const Tensor& x, const Tensor& h, const Tensor& offset,
                              SumForm form) {
  auto sum = x;
  if (offset.defined()) sum = sum + offset.to(x.scalar_type()).view({1, -1, 1, 1});
  if (h.defined()) sum = sum + h;
  if (form == SumForm::padded_after) return at::constant_pad_nd(sum, {0, 1, 0, 1});
  if (form == SumForm::doubled) {
    return at::upsample_nearest2d(sum, {2 * sum.size(2), 2 * sum.size(3)});
  }
  return sum;
}

Tensor residual_sum(const Tensor& x, const Tensor& h, const Tensor& offset, SumForm form) {
  TORCH_CHECK(!at::GradMode::is_enabled(), "residual_sum: has no gradient");
  using Operator = Tensor(const Tensor&, const OptionalTensor&, const OptionalTensor&, int64_t);
  static const auto op = operator_named<Operator>("nsvq::residual_sum");
  return call_below_autograd(op, x, optional_of(h), optional_of(offset),
                             static_cast<int64_t>(form));
}

TORCH_LIBRARY_FRAGMENT(nsvq, m) {
  m.def("residual_sum(Tensor x, Tensor? h, Tensor? offset, int form) -> Tensor");
}

TORCH_LIBRARY_IMPL(nsvq, CPU, m) { m.impl("residual_sum", residual_sum_cpu); }

}  // namespace nsvq
