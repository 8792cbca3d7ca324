#include "nsvq/metrics/sets/frechet.h"

#include <fmt/format.h>

#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/metrics/sets/inception_features.h"
#include "nsvq/metrics/sets/reference.h"

namespace nsvq {

namespace {

bool holds_images(const torch::Tensor& images) { return images.defined() && images.size(0) > 0; }

}  // namespace

FrechetMetric::FrechetMetric(FeatureExtractor extractor, std::shared_ptr<const Gaussian> reference)
    : extractor_(std::move(extractor)),
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
  if (holds_images(images)) to.add(extractor_.features(images));
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

namespace {

std::string title_of(const FeatureExtractorKind& extractor) {
  if (extractor.weights != kInceptionWeights) return "Fréchet distance (" + extractor.name + ")";
  return extractor.name == "fid" ? "FID" : "sFID";
}

std::string choices_of(const FeatureExtractorKind& extractor, const Conventions& conventions) {
  return extractor.weights == kInceptionWeights
             ? extractor.summary + ", " + inception_in_words(conventions)
             : extractor.summary + "; " + pixels_in_words(conventions.network);
}

}  // namespace

std::vector<MetricKind> frechet_kinds() {
  std::vector<MetricKind> kinds;
  for (const auto& extractor : feature_extractor_kinds()) {
    const bool inception = extractor.weights == kInceptionWeights;
    const auto title = title_of(extractor);
    MetricKind kind = {.name = extractor.name,
                       .other_names = {},
                       .summary = extractor.summary,
                       .display = {.title = title,
                                   .chart = title,
                                   .axis = "",
                                   .unit = "",
                                   .decimals = inception ? 2 : 4,
                                   .better = Better::lower},
                       .input = MetricInput::sets,
                       .weights = {extractor.weights},
                       .least_images = 2,
                       .choices =
                           [extractor](const Conventions& conventions) {
                             return choices_of(extractor, conventions);
                           },
                       .make =
                           [name = extractor.name](const MetricOptions& options) {
                             return std::make_unique<FrechetMetric>(
                                 make_feature_extractor(name, options),
                                 options.reference ? options.reference->of(name) : nullptr);
                           }};
    if (extractor.name == "fid") kind.other_names = {"rfid"};
    kinds.push_back(std::move(kind));
  }
  return kinds;
}

}  // namespace nsvq
