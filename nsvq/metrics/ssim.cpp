#include "nsvq/metrics/ssim.h"

#include "nsvq/core/error.h"
#include "nsvq/metrics/pixels.h"

namespace nsvq {

namespace {

constexpr int64_t kWindow = 7;
constexpr double kCount = kWindow * kWindow;
constexpr double kC1 = (0.01 * kPixelRange) * (0.01 * kPixelRange);
constexpr double kC2 = (0.03 * kPixelRange) * (0.03 * kPixelRange);

/// Sums over every window inside the image, as fp64. `x` has whole numbers of at most 255 * 255, so
/// no sum reaches 2^24 and fp32 holds each exactly, whatever the order of additions.
torch::Tensor window_sums(const torch::Tensor& x) {
  const auto sum = [](const torch::Tensor& t, int64_t height, int64_t width) {
    return torch::avg_pool2d(t, {height, width}, /*stride=*/1, /*padding=*/0, /*ceil_mode=*/false,
                             /*count_include_pad=*/true, /*divisor_override=*/1);
  };
  return sum(sum(x, kWindow, 1), 1, kWindow).to(torch::kDouble);
}

/// Similarity of every window: [B, C, H, W] to [B, C, H - 6, W - 6].
torch::Tensor similarity(const torch::Tensor& x, const torch::Tensor& y) {
  const auto sx = window_sums(x), sy = window_sums(y);
  const auto variances = (window_sums(x * x) + window_sums(y * y) - (sx * sx + sy * sy) / kCount);
  const auto covariance = window_sums(x * y) - sx * sy / kCount;
  const auto mx = sx / kCount, my = sy / kCount;
  const auto luminance = (2 * mx * my + kC1) / (mx * mx + my * my + kC1);
  return luminance * (2 * covariance / (kCount - 1) + kC2) / (variances / (kCount - 1) + kC2);
}

}  // namespace

Ssim::Ssim() : sums_(torch::zeros({2}, torch::kDouble)) {}

void Ssim::add(const EvalBatch& batch) {
  const torch::NoGradGuard no_grad;
  const auto pixels = to_pixels(batch);
  const auto& x = pixels.images;
  if (x.size(0) == 0) return;
  if (x.size(2) < kWindow || x.size(3) < kWindow) {
    throw UserError("ssim: images of {}x{} are smaller than its {}x{} window; leave ssim out",
                    x.size(2), x.size(3), kWindow, kWindow);
  }
  const auto images = static_cast<double>(x.size(0));
  const auto mean = similarity(x, pixels.reconstructions).mean().item<double>();
  sums_ += torch::tensor({mean * images, images}, torch::kDouble);
}

std::map<std::string, double> Ssim::values() const {
  const auto* sums = sums_.const_data_ptr<double>();
  if (sums[1] == 0) return {};
  return {{"ssim", sums[0] / sums[1]}};
}

}  // namespace nsvq
