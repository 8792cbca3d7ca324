#include "nsvq/ops/images/feature_distance.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <string>

#include "nsvq/core/fp32.h"
#include "nsvq/ops/common/dispatch.h"
#include "nsvq/ops/common/fast_path.h"

namespace nsvq {

namespace {

using torch::Tensor;
using Forward = Tensor(const Tensor&, const Tensor&, const Tensor&);
using Backward = Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&);

/// The channels of each position at unit length. The gradient of this norm is 0 at 0, where that of
/// a square root is not a number.
Tensor to_unit_length(const Tensor& x) {
  return x / (at::linalg_vector_norm(x, 2, {1}, /*keepdim=*/true) + 1e-10);
}

const auto& feature_distance_operator() {
  static const auto op = operator_named<Forward>("nsvq::feature_distance");
  return op;
}

class FeatureDistance : public torch::autograd::Function<FeatureDistance> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& ours,
                        const Tensor& theirs, const Tensor& weights) {
    context->save_for_backward({ours, theirs, weights});
    return call_below_autograd(feature_distance_operator(), ours, theirs, weights);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "feature_distance: has no second derivative");
    static const auto op = operator_named<Backward>("nsvq::feature_distance_backward");
    const auto saved = context->get_saved_variables();
    return {
        call_below_autograd(op, gradients[0].contiguous(), saved[0], saved[1], saved[2]), {}, {}};
  }
};

Tensor feature_distance_autograd(const Tensor& ours, const Tensor& theirs, const Tensor& weights) {
  return FeatureDistance::apply(ours, theirs, weights.contiguous());
}

/// Why the kernels cannot run on these tensors; empty if they can.
std::string fused_unavailable_reason(const Tensor& ours, const Tensor& theirs) {
  const auto last = at::MemoryFormat::ChannelsLast;
  if (!ours.is_cuda()) return "the activations are not on a GPU";
  if (ours.scalar_type() != theirs.scalar_type()) return "the activations differ in type";
  if (ours.scalar_type() == at::kDouble) return "the activations are fp64";
  if (!ours.is_contiguous(last) || !theirs.is_contiguous(last)) {
    return "the activations are not channels-last";
  }
  if (theirs.requires_grad()) return "the second activations require a gradient";
  if (ours.size(1) > 1024) return "more than 1,024 channels";
  if (ours.size(0) > 65535) return "more than 65,535 images";
  return {};
}

}  // namespace

Tensor feature_distance(const Tensor& ours, const Tensor& theirs, const Tensor& weights) {
  TORCH_CHECK(ours.dim() == 4 && ours.sizes() == theirs.sizes() && weights.dim() == 1 &&
                  weights.size(0) == ours.size(1),
              "feature_distance: needs activations [B, C, H, W] of one shape and weights [C], got ",
              ours.sizes(), ", ", theirs.sizes(), " and ", weights.sizes());
  if (takes_fast_path("feature_distance", fused_unavailable_reason(ours, theirs))) {
    return feature_distance_operator().call(ours, theirs, weights);
  }
  return feature_distance_reference(ours, theirs, weights);
}

Tensor feature_distance_reference(const Tensor& ours, const Tensor& theirs, const Tensor& weights) {
  const auto a = to_unit_length(at_least_fp32(ours));
  const auto b = to_unit_length(at_least_fp32(theirs));
  // The mean over positions may come before the linear weighting, which makes that cheap. No matrix
  // product, which automatic casts would round.
  return ((a - b).square().mean({2, 3}) * weights.to(a.scalar_type())).sum(1);
}

TORCH_LIBRARY_FRAGMENT(nsvq, m) {
  m.def("feature_distance(Tensor ours, Tensor theirs, Tensor weights) -> Tensor");
  m.def(
      "feature_distance_backward(Tensor gradient, Tensor ours, Tensor theirs, Tensor weights) -> "
      "Tensor");
}

TORCH_LIBRARY_IMPL(nsvq, Autograd, m) { m.impl("feature_distance", feature_distance_autograd); }

}  // namespace nsvq
