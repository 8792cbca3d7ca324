#include "nsvq/metrics/psnr.h"

#include <cmath>

#include "nsvq/metrics/pixels.h"

namespace nsvq {

namespace {

constexpr double kHighestDecibels = 100;

double decibels(double mean_squared_error) {
  const double dB = 10 * std::log10(kPixelRange * kPixelRange / mean_squared_error);
  return dB > kHighestDecibels ? kHighestDecibels : dB;  // NaN stays NaN
}

}  // namespace

Psnr::Psnr(PixelRule pixels, int64_t group) : pixels_(pixels), mean_(group, decibels) {}

void Psnr::add(const EvalBatch& batch) {
  const torch::NoGradGuard no_grad;
  check_pair(batch);
  if (batch.images.numel() == 0) return;
  const auto squared =
      (to_pixels(batch.images, pixels_) - to_pixels(batch.reconstructions, pixels_)).square();
  mean_.add(squared.flatten(1).sum(1, /*keepdim=*/false, torch::kDouble),
            static_cast<double>(squared[0].numel()));
}

}  // namespace nsvq
