#include "nsvq/nn/opponent_colors.h"

namespace nsvq {

namespace {

constexpr double kOrange = 3, kGreen = 8;

torch::Tensor joined_colors(const std::vector<torch::Tensor>& channels, const torch::Tensor& like) {
  return at::stack(channels, 1).contiguous(like.suggest_memory_format());
}

}  // namespace

torch::Tensor to_opponent_colors(const torch::Tensor& images) {
  const auto red = images.select(1, 0), green = images.select(1, 1), blue = images.select(1, 2);
  return joined_colors({(red + green + blue) / 3, (red - blue) * (kOrange / 2),
                        (green - (red + blue) / 2) * (kGreen / 2)},
                       images);
}

torch::Tensor from_opponent_colors(const torch::Tensor& channels) {
  const auto brightness = channels.select(1, 0);
  const auto orange = channels.select(1, 1) / kOrange;            // half of red - blue
  const auto green = channels.select(1, 2) * (2 / (3 * kGreen));  // green - brightness, halved
  return joined_colors(
      {brightness - green + orange, brightness + 2 * green, brightness - green - orange}, channels);
}

}  // namespace nsvq
