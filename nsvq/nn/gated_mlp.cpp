#include "nsvq/nn/gated_mlp.h"

#include <torch/csrc/autograd/custom_function.h>

#include "nsvq/ops/transformer/swiglu.h"

namespace nsvq {

namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class GatedMlp : public torch::autograd::Function<GatedMlp> {
 public:
  /// x [N, d].
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& w1,
                        const Tensor& w2, const Tensor& w3) {
    const auto a = at::mm(x, w1.t()), b = at::mm(x, w3.t());
    context->save_for_backward({x, w1, w2, w3, a, b});
    return at::mm(swiglu(a, b), w2.t());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "gated_mlp: has no second derivative");
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &w1 = saved[1], &w2 = saved[2], &w3 = saved[3];
    const auto gradient = gradients[0].contiguous();
    const auto inner = at::mm(gradient, w2);
    const auto [of_a, of_b] = swiglu_backward(inner, saved[4], saved[5]);  // inner: the product
    auto of_x = at::mm(of_a, w1);
    of_x.addmm_(of_b, w3);
    return {of_x, at::mm(of_a.t(), x), at::mm(gradient.t(), inner), at::mm(of_b.t(), x)};
  }
};

}  // namespace

Tensor gated_mlp(const Tensor& x, const Tensor& w1, const Tensor& w2, const Tensor& w3) {
  TORCH_CHECK(x.size(-1) == w1.size(1) && w1.sizes() == w3.sizes() && w2.size(1) == w1.size(0),
              "gated_mlp: needs x [..., d], w1 and w3 [hidden, d] and w2 [d, hidden], got ",
              x.sizes(), ", ", w1.sizes(), ", ", w3.sizes(), " and ", w2.sizes());
  auto shape = x.sizes().vec();
  shape.back() = w2.size(0);
  const auto rows = x.reshape({-1, x.size(-1)});
  return GatedMlp::apply(rows, w1, w2, w3).view(shape);
}

}  // namespace nsvq
