#include "nsvq/metrics/grey_picture.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "nsvq/metrics/conventions.h"

namespace nsvq {

void GreyPicture::add(const torch::Tensor& images, const std::vector<int64_t>& positions) {
  const torch::NoGradGuard no_grad;
  if (positions.empty()) return;
  const auto pixels = to_pixels(images).flatten(2).to(at::kDouble);  // [B, 3, H W]
  const auto squares = pixels.square().mean({1, 2}).unsqueeze(1);
  const auto rows = at::cat({at::ones_like(squares), squares, pixels.mean(2)}, 1);
  moments_.index_copy_(0, at::tensor(positions, at::kLong), rows.to(at::kCPU));
}

double GreyPicture::psnr() const {
  const auto rows = moments_.select(1, 0).nonzero().flatten();  // broken images were not added
  const auto seen = moments_.index_select(0, rows);
  if (seen.size(0) == 0) return NAN;
  const auto means = seen.narrow(1, 2, 3), colour = means.mean(0, /*keepdim=*/true);
  // The mean of (x - c)^2 over an image: of x^2 - 2 x c + c^2.
  const auto errors = seen.select(1, 1) + (colour.square() - 2 * means * colour).mean(1);
  double sum = 0;
  for (const double error : std::span(errors.const_data_ptr<double>(), rows.numel())) {
    sum += decibels(std::max(error, 0.0));  // rounding may leave less
  }
  return sum / static_cast<double>(rows.numel());
}

}  // namespace nsvq
