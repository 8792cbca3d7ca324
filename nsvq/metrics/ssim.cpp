#include <fmt/format.h>

#include <algorithm>

#include "nsvq/core/error.h"
#include "nsvq/metrics/grouped_mean.h"
#include "nsvq/metrics/metric.h"

namespace nsvq {

namespace {

constexpr int64_t kWindow = 7;
constexpr double kCount = kWindow * kWindow;
constexpr int64_t kStripElements = int64_t{1} << 22;

/// Sums over every window inside the image, as fp64. Whole numbers of at most 255 * 255 may come as
/// fp32: no sum reaches 2^24, so fp32 holds each exactly, whatever the order of additions.
torch::Tensor window_sums(const torch::Tensor& x) {
  const auto sum = [](const torch::Tensor& t, int64_t height, int64_t width) {
    return torch::avg_pool2d(t, {height, width}, /*stride=*/1, /*padding=*/0, /*ceil_mode=*/false,
                             /*count_include_pad=*/true, /*divisor_override=*/1);
  };
  return sum(sum(x, kWindow, 1), 1, kWindow).to(torch::kDouble);
}

/// Similarity of every window: [B, C, H, W] to [B, C, H - 6, W - 6].
torch::Tensor similarity(const torch::Tensor& x, const torch::Tensor& y, double range) {
  const double c1 = (0.01 * range) * (0.01 * range), c2 = (0.03 * range) * (0.03 * range);
  const auto sx = window_sums(x), sy = window_sums(y);
  const auto variances = (window_sums(x * x) + window_sums(y * y) - (sx * sx + sy * sy) / kCount);
  const auto covariance = window_sums(x * y) - sx * sy / kCount;
  const auto mx = sx / kCount, my = sy / kCount;
  const auto luminance = (2 * mx * my + c1) / (mx * mx + my * my + c1);
  return luminance * (2 * covariance / (kCount - 1) + c2) / (variances / (kCount - 1) + c2);
}

/// The mean of each image [B], in strips of rows: what is held at a time does not grow with the
/// images.
torch::Tensor mean_similarity(const torch::Tensor& x, const torch::Tensor& y, double range) {
  const int64_t windows = x.size(2) - kWindow + 1;
  const int64_t row_elements = x.size(0) * x.size(1) * x.size(3);
  const int64_t rows = std::max<int64_t>(1, kStripElements / row_elements);
  auto sums = torch::zeros({x.size(0)}, x.options().dtype(torch::kDouble));
  for (int64_t top = 0; top < windows; top += rows) {
    const int64_t height = std::min(rows, windows - top) + kWindow - 1;
    const auto strip = [&](const torch::Tensor& t) { return t.narrow(2, top, height); };
    sums += similarity(strip(x), strip(y), range).sum({1, 2, 3});
  }
  return sums / static_cast<double>(windows * x.size(1) * (x.size(3) - kWindow + 1));
}

/// Structural similarity as scikit-image's structural_similarity has it by default (7x7 uniform
/// window, sample covariance, K1 0.01, K2 0.03, windows inside the image only), averaged over
/// windows and channels, then over groups of images and over these. Throws UserError for images
/// smaller than the window.
class Ssim : public Metric {
 public:
  explicit Ssim(const Conventions& conventions);
  void add(const EvalBatch& batch) override;
  std::vector<torch::Tensor> sums() override { return {mean_.sums()}; }
  std::optional<double> value() const override { return mean_.value(); }

 private:
  PixelRule pixels_;
  double range_;  // of values in 0..255
  GroupedMean mean_;
};

Ssim::Ssim(const Conventions& conventions)
    : pixels_(conventions.pixels),
      range_(conventions.ssim_range * kPixelRange),
      mean_(conventions.group, [](double mean) { return mean; }) {}

void Ssim::add(const EvalBatch& batch) {
  const torch::NoGradGuard no_grad;
  check_pair(batch);
  auto x = to_pixels(batch.images, pixels_), y = to_pixels(batch.reconstructions, pixels_);
  if (x.size(0) == 0) return;
  if (x.size(2) < kWindow || x.size(3) < kWindow) {
    throw UserError("ssim: images of {}x{} are smaller than its {}x{} window; leave ssim out",
                    x.size(2), x.size(3), kWindow, kWindow);
  }
  if (pixels_ == PixelRule::unrounded) {
    x = x.to(torch::kDouble);
    y = y.to(torch::kDouble);
  }
  mean_.add(mean_similarity(x, y, range_), 1);
}

}  // namespace

std::vector<MetricKind> ssim_kinds() {
  return {{.name = "ssim",
           .other_names = {},
           .summary = "structural similarity, 7x7 uniform window",
           .display = {.title = "SSIM", .chart = "SSIM", .axis = "", .unit = ""},
           .input = MetricInput::pairs,
           .per_image = true,
           .choices =
               [](const Conventions& c) {
                 return fmt::format(
                     "{}; {}; 7x7 uniform window, data range {} for values in [0, 1]",
                     groups_in_words(c), pixels_in_words(c.pixels), c.ssim_range);
               },
           .make =
               [](const MetricOptions& options) {
                 return std::make_unique<Ssim>(options.conventions);
               }}};
}

}  // namespace nsvq
