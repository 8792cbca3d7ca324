#include "nsvq/metrics/frechet.h"

#include <fmt/format.h>

#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/precision.h"

namespace nsvq {

namespace {

bool holds_images(const torch::Tensor& images) { return images.defined() && images.size(0) > 0; }

}  // namespace

FrechetMetric::FrechetMetric(FeatureExtractor extractor, c10::Device device, PixelRule pixels,
                             std::shared_ptr<const Gaussian> reference)
    : extractor_(std::move(extractor)),
      device_(device),
      pixels_(pixels),
      reference_(std::move(reference)),
      images_(extractor_.channels),
      reconstructions_(extractor_.channels) {
  if (!reference_ || reference_->mean.numel() == extractor_.channels) return;
  throw UserError("the reference statistics are of {} features, but {} has {}; take those of {}",
                  reference_->mean.numel(), extractor_.name, extractor_.channels, extractor_.name);
}

void FrechetMetric::add(const EvalBatch& batch) {
  if (reference_) note_other_size(batch.reconstructions);
  if (!reference_ && !known_) add(batch.images, images_);
  add(batch.reconstructions, reconstructions_);
}

void FrechetMetric::note_other_size(const torch::Tensor& reconstructions) {
  if (noted_ || !holds_images(reconstructions)) return;
  const int64_t size = reference_->size;
  const int64_t height = reconstructions.size(2), width = reconstructions.size(3);
  if (height == size && width == size) return;
  noted_ = true;
  const auto reference =
      size > 0
          ? fmt::format("are of images of {}x{}, but these are of {}x{}, so", size, size, width,
                        height)
          : fmt::format("do not name one size of their images; if it is not {}x{},", width, height);
  log("{}: the reference statistics {} the value is also that of the resizing; "
      "`nsvq images statistics --size` makes statistics of another size",
      extractor_.name, reference);
}

void FrechetMetric::add(const torch::Tensor& images, FrechetStatistics& to) {
  if (!holds_images(images)) return;
  // Always fp32: statistics are stored and compared with those of other runs.
  const Tf32Guard exact(Tf32Work::convolutions, false);
  to.add(extractor_.features(to_network_input(images.to(device_), pixels_).contiguous()));
}

std::vector<torch::Tensor> FrechetMetric::sums() {
  auto all = images_.sums();
  for (auto& sum : reconstructions_.sums()) all.push_back(sum);
  return all;
}

std::optional<double> FrechetMetric::value() const {
  const auto statistics = reference_ ? reference_ : image_statistics();
  if (!statistics || reconstructions_.count() < 2) return std::nullopt;
  log("{}: computing the distance by {} features", extractor_.name, extractor_.channels);
  return frechet_distance(*statistics, reconstructions_.gaussian());
}

std::shared_ptr<const Gaussian> FrechetMetric::image_statistics() const {
  if (known_ || reference_ || images_.count() < 2) return known_;
  return std::make_shared<const Gaussian>(images_.gaussian());
}

void FrechetMetric::know_images(std::shared_ptr<const Gaussian> statistics) {
  known_ = std::move(statistics);
}

std::vector<MetricKind> frechet_kinds() {
  std::vector<MetricKind> kinds;
  for (const auto& extractor : feature_extractor_kinds()) {
    const bool fid = extractor.name == "fid";
    const auto title = fid ? "FID" : "Fréchet distance (" + extractor.name + ")";
    MetricKind kind = {.name = extractor.name,
                       .other_names = {},
                       .summary = extractor.summary,
                       .display = {.title = title,
                                   .chart = title,
                                   .axis = "",
                                   .unit = "",
                                   .decimals = fid ? 2 : 4,
                                   .better = Better::lower},
                       .input = MetricInput::sets,
                       .weights = {extractor.weights},
                       .choices =
                           [summary = extractor.summary](const Conventions& c) {
                             return summary + "; " + pixels_in_words(c.network);
                           },
                       .make =
                           [name = extractor.name](const MetricOptions& options) {
                             return std::make_unique<FrechetMetric>(
                                 make_feature_extractor(name, options.device), options.device,
                                 options.conventions.network, options.reference);
                           }};
    if (fid) kind.other_names = {"rfid"};
    kinds.push_back(std::move(kind));
  }
  return kinds;
}

}  // namespace nsvq
