#include "nsvq/ops/images/depth_to_space.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <tuple>

#include "nsvq/ops/common/dispatch.h"
#include "nsvq/ops/common/layout.h"

namespace nsvq {

namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Rearrange = Tensor(const Tensor&);
using WithSums = std::tuple<Tensor, Tensor>;

void check_deep(const Tensor& x) {
  TORCH_CHECK(x.dim() == 4 && x.size(1) % 4 == 0, "depth_to_space: needs [B, 4C, H, W], got ",
              x.sizes());
}

void check_wide(const Tensor& x) {
  TORCH_CHECK(x.dim() == 4 && x.size(2) % 2 == 0 && x.size(3) % 2 == 0,
              "space_to_depth: needs [B, C, 2H, 2W], got ", x.sizes());
}

Tensor depth_to_space_plain(const Tensor& x) {
  check_deep(x);
  const int64_t b = x.size(0), c = x.size(1) / 4, h = x.size(2), w = x.size(3);
  const auto split = x.unflatten(1, {2, 2, c});  // [B, dy, dx, C, H, W]
  if (channels_last(x)) {
    const auto rows = split.permute({0, 4, 1, 5, 2, 3}).reshape({b, 2 * h, 2 * w, c});
    return rows.permute({0, 3, 1, 2});
  }
  return split.permute({0, 3, 4, 1, 5, 2}).reshape({b, c, 2 * h, 2 * w});
}

Tensor space_to_depth_plain(const Tensor& x) {
  check_wide(x);
  const int64_t b = x.size(0), c = x.size(1), h = x.size(2) / 2, w = x.size(3) / 2;
  const auto split = x.unflatten(3, {w, 2}).unflatten(2, {h, 2});  // [B, C, H, dy, W, dx]
  if (channels_last(x)) {
    const auto pixels = split.permute({0, 2, 4, 3, 5, 1}).reshape({b, h, w, 4 * c});
    return pixels.permute({0, 3, 1, 2});
  }
  return split.permute({0, 3, 5, 1, 2, 4}).reshape({b, 4 * c, h, w});
}

Tensor plus_bias(const Tensor& x, const Tensor& bias) {
  return (x + bias.view({1, -1, 1, 1})).to(x.scalar_type());
}

Tensor depth_to_space_bias_plain(const Tensor& x, const Tensor& bias) {
  return depth_to_space_plain(plus_bias(x, bias));
}

WithSums space_to_depth_sums_plain(const Tensor& x) {
  const auto deep = space_to_depth_plain(x);
  return {deep, deep.sum({0, 2, 3}, /*keepdim=*/false, at::kFloat)};
}

const auto& depth_to_space_operator() {
  static const auto op = operator_named<Rearrange>("nsvq::depth_to_space");
  return op;
}

const auto& space_to_depth_operator() {
  static const auto op = operator_named<Rearrange>("nsvq::space_to_depth");
  return op;
}

const auto& depth_to_space_bias_operator() {
  using Forward = Tensor(const Tensor&, const Tensor&);
  static const auto op = operator_named<Forward>("nsvq::depth_to_space_bias");
  return op;
}

class DepthToSpace : public torch::autograd::Function<DepthToSpace> {
 public:
  static Tensor forward(AutogradContext*, const Tensor& x) {
    return call_below_autograd(depth_to_space_operator(), x);
  }
  static variable_list backward(AutogradContext*, variable_list gradients) {
    return {space_to_depth(gradients[0])};
  }
};

class SpaceToDepth : public torch::autograd::Function<SpaceToDepth> {
 public:
  static Tensor forward(AutogradContext*, const Tensor& x) {
    return call_below_autograd(space_to_depth_operator(), x);
  }
  static variable_list backward(AutogradContext*, variable_list gradients) {
    return {depth_to_space(gradients[0])};
  }
};

class DepthToSpaceBias : public torch::autograd::Function<DepthToSpaceBias> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& bias) {
    context->saved_data["type of bias"] = bias.scalar_type();
    return call_below_autograd(depth_to_space_bias_operator(), x, bias);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (!context->needs_input_grad(1)) return {space_to_depth(gradients[0]), {}};
    const auto type = context->saved_data["type of bias"].toScalarType();
    if (at::GradMode::is_enabled()) {  // the sums below have no derivative
      const auto deep = space_to_depth(gradients[0]);
      return {deep, deep.sum({0, 2, 3}, /*keepdim=*/false, at::kFloat).to(type)};
    }
    static const auto op = operator_named<WithSums(const Tensor&)>("nsvq::space_to_depth_sums");
    const auto [deep, sums] = call_below_autograd(op, gradients[0]);
    return {deep, sums.to(type)};
  }
};

Tensor depth_to_space_autograd(const Tensor& x) { return DepthToSpace::apply(x); }

Tensor space_to_depth_autograd(const Tensor& x) { return SpaceToDepth::apply(x); }

Tensor depth_to_space_bias_autograd(const Tensor& x, const Tensor& bias) {
  return DepthToSpaceBias::apply(x, bias);
}

}  // namespace

Tensor depth_to_space(const Tensor& x, const Tensor& bias) {
  check_deep(x);
  TORCH_CHECK(bias.dim() == 1 && bias.size(0) == x.size(1) && bias.device() == x.device(),
              "depth_to_space: bias must be [", x.size(1), "] on ", x.device(), ", but it is ",
              bias.sizes(), " on ", bias.device());
  return has_kernels_type(x) ? depth_to_space_bias_operator().call(x, bias)
                             : depth_to_space(plus_bias(x, bias));
}

Tensor depth_to_space(const Tensor& x) {
  check_deep(x);
  return depth_to_space_operator().call(x);
}

Tensor space_to_depth(const Tensor& x) {
  check_wide(x);
  return space_to_depth_operator().call(x);
}

TORCH_LIBRARY_FRAGMENT(nsvq, m) {
  m.def("depth_to_space(Tensor x) -> Tensor");
  m.def("space_to_depth(Tensor x) -> Tensor");
  m.def("depth_to_space_bias(Tensor x, Tensor bias) -> Tensor");
  m.def("space_to_depth_sums(Tensor x) -> (Tensor, Tensor sums)");
}
TORCH_LIBRARY_IMPL(nsvq, Autograd, m) {
  m.impl("depth_to_space", depth_to_space_autograd);
  m.impl("space_to_depth", space_to_depth_autograd);
  m.impl("depth_to_space_bias", depth_to_space_bias_autograd);
}
TORCH_LIBRARY_IMPL(nsvq, CPU, m) {
  m.impl("depth_to_space", depth_to_space_plain);
  m.impl("space_to_depth", space_to_depth_plain);
  m.impl("depth_to_space_bias", depth_to_space_bias_plain);
  m.impl("space_to_depth_sums", space_to_depth_sums_plain);
}

}  // namespace nsvq
