#include "nsvq/nn/features/resized.h"

#include <algorithm>

namespace nsvq {

namespace {

/// [to, from]: what each of `from` pixels in a line contributes to each of `to` pixels, on the
/// device of `like` without waiting for it.
torch::Tensor weights_of_pixels(int64_t from, int64_t to, const torch::Tensor& like) {
  const auto wide = like.options().dtype(at::kDouble).requires_grad(false);
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const auto centres = (at::arange(to, wide) + 0.5) * scale;
  const auto apart = at::arange(from, wide) + 0.5 - centres.unsqueeze(1);
  const auto weights = (1 - apart.abs() / std::max(scale, 1.0)).clamp_min(0);
  return (weights / weights.sum(1, /*keepdim=*/true)).to(like.scalar_type());
}

}  // namespace

torch::Tensor resized(const torch::Tensor& images, int64_t side) {
  const auto of_rows = weights_of_pixels(images.size(2), side, images);
  const auto of_columns = weights_of_pixels(images.size(3), side, images);
  return of_rows.matmul(images.matmul(of_columns.t()));
}

}  // namespace nsvq
