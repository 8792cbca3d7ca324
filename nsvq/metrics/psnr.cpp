#include "nsvq/metrics/grouped_mean.h"
#include "nsvq/metrics/metric.h"

namespace nsvq {

namespace {

/// The mean over groups of images of the PSNR in dB of each group's mean squared error: with groups
/// of one image the usual mean, with one group of all the pooled PSNR, which reads lower.
class Psnr : public Metric {
 public:
  Psnr(PixelRule pixels, int64_t group);
  void add(const EvalBatch& batch) override;
  std::vector<torch::Tensor> sums() override { return {mean_.sums()}; }
  std::optional<double> value() const override { return mean_.value(); }

 private:
  PixelRule pixels_;
  GroupedMean mean_;
};

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

}  // namespace

std::vector<MetricKind> psnr_kinds() {
  const MetricKind of_images = {
      .name = "psnr",
      .other_names = {},
      .summary = "peak signal-to-noise ratio in dB, mean over images",
      .display = {.title = "PSNR", .chart = "PSNR", .axis = "dB", .unit = "dB", .decimals = 2},
      .input = MetricInput::pairs,
      .per_image = true,
      .choices =
          [](const Conventions& c) {
            return groups_in_words(c) + "; " + pixels_in_words(c.pixels);
          },
      .make =
          [](const MetricOptions& options) {
            return std::make_unique<Psnr>(options.conventions.pixels, options.conventions.group);
          }};
  auto pooled = of_images;
  pooled.name = "psnr_pooled";
  pooled.per_image = false;
  pooled.summary = "peak signal-to-noise ratio in dB of the error over all images";
  pooled.display.title = "PSNR, pooled";
  pooled.choices = [](const Conventions& c) {
    return "of the error over all images; " + pixels_in_words(c.pixels);
  };
  pooled.make = [](const MetricOptions& options) {
    return std::make_unique<Psnr>(options.conventions.pixels, GroupedMean::kAll);
  };
  return {of_images, pooled};
}

}  // namespace nsvq
