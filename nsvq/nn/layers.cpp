#include "nsvq/nn/layers.h"

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/normalization.h>

#include <algorithm>

namespace nsvq {

std::shared_ptr<torch::nn::Conv2dImpl> make_conv(const ConvShape& shape) {
  return std::make_shared<torch::nn::Conv2dImpl>(
      torch::nn::Conv2dOptions(shape.inputs, shape.outputs, shape.kernel)
          .stride(shape.stride)
          .padding(shape.kernel / 2)
          .bias(shape.bias));
}

std::shared_ptr<torch::nn::GroupNormImpl> make_norm(int64_t channels) {
  int64_t groups = 32;
  if (channels % groups != 0) {
    groups = std::clamp<int64_t>(channels / 4, 1, 32);
    while (channels % groups != 0) --groups;
  }
  return std::make_shared<torch::nn::GroupNormImpl>(
      torch::nn::GroupNormOptions(groups, channels).eps(1e-6));
}

torch::Tensor depth_to_space(const torch::Tensor& x) {
  TORCH_CHECK(x.dim() == 4 && x.size(1) % 4 == 0, "depth_to_space: needs [B, 4C, H, W], got ",
              x.sizes());
  const int64_t b = x.size(0), c = x.size(1) / 4, h = x.size(2), w = x.size(3);
  const auto split = x.unflatten(1, {2, 2, c});  // [B, dy, dx, C, H, W]
  if (x.suggest_memory_format() == torch::MemoryFormat::ChannelsLast) {
    const auto rows = split.permute({0, 4, 1, 5, 2, 3}).reshape({b, 2 * h, 2 * w, c});
    return rows.permute({0, 3, 1, 2});
  }
  return split.permute({0, 3, 4, 1, 5, 2}).reshape({b, c, 2 * h, 2 * w});
}

int64_t parameter_count(const torch::nn::Module& module) {
  int64_t count = 0;
  for (const auto& parameter : module.parameters()) count += parameter.numel();
  return count;
}

}  // namespace nsvq
