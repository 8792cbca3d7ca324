#include "nsvq/metrics/psnr.h"

#include "nsvq/metrics/pixels.h"

namespace nsvq {

namespace {

constexpr double kHighestDecibels = 100;

torch::Tensor decibels(const torch::Tensor& mean_squared_error) {
  const auto ratio = kPixelRange * kPixelRange / mean_squared_error;
  return (10 * ratio.log10()).clamp_max(kHighestDecibels);  // NaN stays NaN
}

}  // namespace

Psnr::Psnr() : sums_(torch::zeros({4}, torch::kDouble)) {}

void Psnr::add(const EvalBatch& batch) {
  const torch::NoGradGuard no_grad;
  const auto pixels = to_pixels(batch);
  const auto squared = (pixels.images - pixels.reconstructions).square();
  if (squared.numel() == 0) return;
  const auto errors = squared.flatten(1).sum(1, /*keepdim=*/false, torch::kDouble).cpu();  // [B]
  const auto elements = static_cast<double>(squared.numel());
  const auto images = static_cast<double>(errors.size(0));
  const auto dB = decibels(errors * (images / elements)).sum().item<double>();
  sums_ += torch::tensor({dB, images, errors.sum().item<double>(), elements}, torch::kDouble);
}

std::map<std::string, double> Psnr::values() const {
  const auto* sums = sums_.const_data_ptr<double>();
  if (sums[1] == 0) return {};
  const auto pooled = decibels(sums_[2] / sums_[3]).item<double>();
  return {{"psnr", sums[0] / sums[1]}, {"psnr_pooled", pooled}};
}

}  // namespace nsvq
