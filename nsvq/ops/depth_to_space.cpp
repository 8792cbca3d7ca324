#include "nsvq/ops/depth_to_space.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "nsvq/ops/dispatch.h"

namespace nsvq {

namespace {

using torch::Tensor;
using Rearrange = Tensor(const Tensor&);

bool channels_last(const Tensor& x) {
  return x.suggest_memory_format() == at::MemoryFormat::ChannelsLast;
}

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

class DepthToSpace : public torch::autograd::Function<DepthToSpace> {
 public:
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& x) {
    static const auto op = operator_named<Rearrange>("nsvq::depth_to_space");
    return op.call(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return {space_to_depth(gradients[0])};
  }
};

class SpaceToDepth : public torch::autograd::Function<SpaceToDepth> {
 public:
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& x) {
    static const auto op = operator_named<Rearrange>("nsvq::space_to_depth");
    return op.call(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return {depth_to_space(gradients[0])};
  }
};

}  // namespace

Tensor depth_to_space(const Tensor& x) {
  check_deep(x);
  return DepthToSpace::apply(x);
}

Tensor space_to_depth(const Tensor& x) {
  check_wide(x);
  return SpaceToDepth::apply(x);
}

TORCH_LIBRARY_FRAGMENT(nsvq, m) {
  m.def("depth_to_space(Tensor x) -> Tensor");
  m.def("space_to_depth(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(nsvq, CPU, m) {
  m.impl("depth_to_space", depth_to_space_plain);
  m.impl("space_to_depth", space_to_depth_plain);
}

}  // namespace nsvq
