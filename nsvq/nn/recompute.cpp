#include "nsvq/nn/recompute.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "nsvq/core/precision.h"

namespace nsvq {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Saved for the backward pass, besides the input.
struct KeptPart : torch::CustomClassHolder {
  NetworkPart call;
  Precision precision = Precision::fp32;  ///< of autocast in the forward pass
};

class Recompute : public torch::autograd::Function<Recompute> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x,
                               const c10::intrusive_ptr<KeptPart>& part) {
    context->save_for_backward({x});
    context->saved_data["part"] = c10::IValue::make_capsule(part);
    return part->call(x);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "recomputed: double backward is not supported");
    const auto part =
        c10::static_intrusive_pointer_cast<KeptPart>(context->saved_data["part"].toCapsule());
    const auto x = context->get_saved_variables()[0].detach().requires_grad_();
    torch::Tensor result;
    {
      const at::AutoGradMode with_graph(true);
      const AutocastGuard autocast(part->precision, x.device());
      result = part->call(x);
    }
    torch::autograd::backward({result}, {gradients[0]});
    return {x.grad(), {}};
  }
};

}  // namespace

torch::Tensor recomputed(NetworkPart part, const torch::Tensor& x) {
  if (!at::GradMode::is_enabled() || !x.requires_grad()) return part(x);
  const auto kept = c10::make_intrusive<KeptPart>();
  kept->call = std::move(part);
  kept->precision = autocast_precision(x.device());
  return Recompute::apply(x, kept);
}

}  // namespace nsvq
