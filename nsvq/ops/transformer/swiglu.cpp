#include "nsvq/ops/transformer/swiglu.h"

#include <torch/library.h>
#include <torch/types.h>

#include <tuple>

#include "nsvq/core/fp32.h"
#include "nsvq/ops/common/dispatch.h"

namespace nsvq {

namespace {

using torch::Tensor;
using TwoTensors = std::tuple<Tensor, Tensor>;

Tensor swiglu_cpu(const Tensor& a, const Tensor& b) {
  check_swiglu(a, b);
  return (at::silu(at_least_fp32(a)) * at_least_fp32(b)).to(a.scalar_type());
}

TwoTensors swiglu_backward_cpu(const Tensor& gradient, const Tensor& a, const Tensor& b) {
  check_swiglu(a, b);
  check_swiglu(a, gradient);
  const auto g = at_least_fp32(gradient), x = at_least_fp32(a), y = at_least_fp32(b);
  const auto share = x.sigmoid(), silu = x * share;
  const auto of_a = g * y * (share + silu * (1 - share)), of_b = g * silu;
  gradient.copy_(silu * y);
  return {of_a.to(a.scalar_type()), of_b.to(a.scalar_type())};
}

}  // namespace

void check_swiglu(const Tensor& a, const Tensor& b) {
  TORCH_CHECK(a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
                  a.device() == b.device() && a.is_contiguous() && b.is_contiguous(),
              "swiglu: needs contiguous tensors of one shape, type and device, got ", a.sizes(),
              " ", a.scalar_type(), " on ", a.device(), " and ", b.sizes(), " ", b.scalar_type(),
              " on ", b.device());
}

Tensor swiglu(const Tensor& a, const Tensor& b) {
  static const auto op = operator_named<Tensor(const Tensor&, const Tensor&)>("nsvq::swiglu");
  return call_below_autograd(op, a, b);
}

std::pair<Tensor, Tensor> swiglu_backward(const Tensor& gradient, const Tensor& a,
                                          const Tensor& b) {
  using Backward = TwoTensors(const Tensor&, const Tensor&, const Tensor&);
  static const auto op = operator_named<Backward>("nsvq::swiglu_backward_");
  const auto [of_a, of_b] = call_below_autograd(op, gradient, a, b);
  return {of_a, of_b};
}

TORCH_LIBRARY_FRAGMENT(nsvq, m) {
  m.def("swiglu(Tensor a, Tensor b) -> Tensor");
  m.def("swiglu_backward_(Tensor(a!) gradient, Tensor a, Tensor b) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(nsvq, CPU, m) {
  m.impl("swiglu", swiglu_cpu);
  m.impl("swiglu_backward_", swiglu_backward_cpu);
}

}  // namespace nsvq
