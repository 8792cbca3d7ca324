#include "nsvq/ops/images/bias_relu.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>
#include <torch/types.h>

#include <string>

#include "nsvq/ops/common/dispatch.h"
#include "nsvq/ops/common/fast_path.h"
#include "nsvq/ops/common/layout.h"

namespace nsvq {

namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const auto& bias_relu_operator() {
  static const auto op = operator_named<void(const Tensor&, const Tensor&)>("nsvq::bias_relu_");
  return op;
}

class BiasRelu : public torch::autograd::Function<BiasRelu> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& bias) {
    call_below_autograd(bias_relu_operator(), x, bias);
    context->mark_dirty({x});
    context->save_for_backward({x});
    context->saved_data["type of bias"] = bias.scalar_type();
    return x;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto output = context->get_saved_variables()[0];
    const auto x = at::threshold_backward(gradients[0], output, 0);
    if (!context->needs_input_grad(1)) return {x, {}};
    const auto type = context->saved_data["type of bias"].toScalarType();
    return {x, x.sum({0, 2, 3}, /*keepdim=*/false, at::kFloat).to(type)};
  }
};

void bias_relu_autograd(const Tensor& x, const Tensor& bias) { BiasRelu::apply(x, bias); }

/// Why the operator cannot write over x; empty if it can.
std::string in_place_unavailable_reason(const Tensor& x) {
  const bool wanted = at::GradMode::is_enabled() && x.is_leaf() && x.requires_grad();
  if (wanted) return "x is a leaf that requires a gradient";
  if (!has_kernels_type(x)) return "x is not fp32, bf16 or fp16";
  if (!x.is_contiguous(at::MemoryFormat::ChannelsLast)) return "x is not channels-last";
  return {};
}

void check_shapes(const Tensor& x, const Tensor& bias) {
  TORCH_CHECK(x.dim() == 4, "bias_relu: x must be [N, C, H, W], but it is ", x.sizes());
  TORCH_CHECK(bias.dim() == 1 && bias.size(0) == x.size(1), "bias_relu: bias must be [", x.size(1),
              "], but it is ", bias.sizes());
  TORCH_CHECK(bias.device() == x.device(), "bias_relu: bias is on ", bias.device(),
              ", but x is on ", x.device());
}

void bias_relu_cpu(const Tensor& x, const Tensor& bias) {
  check_bias_relu(x, bias);
  x.copy_(bias_relu_reference(x, bias));
}

}  // namespace

void check_bias_relu(const Tensor& x, const Tensor& bias) {
  check_shapes(x, bias);
  TORCH_CHECK(has_kernels_type(x), "bias_relu: x must be fp32, bf16 or fp16, but it is ",
              x.scalar_type());
  TORCH_CHECK(x.is_contiguous(at::MemoryFormat::ChannelsLast), "bias_relu: x is not channels-last");
}

Tensor bias_relu(const Tensor& x, const Tensor& bias) {
  check_shapes(x, bias);
  if (!takes_fast_path("bias_relu", in_place_unavailable_reason(x))) {
    return bias_relu_reference(x, bias);
  }
  bias_relu_operator().call(x, bias);
  return x;
}

Tensor bias_relu_reference(const Tensor& x, const Tensor& bias) {
  return at::relu((x + bias.view({1, -1, 1, 1})).to(x.scalar_type()));
}

TORCH_LIBRARY_FRAGMENT(nsvq, m) { m.def("bias_relu_(Tensor(a!) x, Tensor bias) -> ()"); }
TORCH_LIBRARY_IMPL(nsvq, Autograd, m) { m.impl("bias_relu_", bias_relu_autograd); }
TORCH_LIBRARY_IMPL(nsvq, CPU, m) { m.impl("bias_relu_", bias_relu_cpu); }

}  // namespace nsvq
