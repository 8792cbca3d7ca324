#include "nsvq/metrics/sets/reference.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/text.h"
#include "nsvq/data/sources/npz_source.h"
#include "nsvq/io/formats/npz.h"
#include "nsvq/metrics/sets/feature_extractor.h"
#include "nsvq/metrics/sets/inception_features.h"

namespace nsvq {

namespace {

bool holds(const std::vector<std::string>& names, const std::string& array) {
  return std::ranges::find(names, array) != names.end();
}

bool has_statistics(const std::vector<std::string>& names, const std::string& metric) {
  const auto arrays = gaussian_arrays(metric);
  return holds(names, arrays.mean) && holds(names, arrays.covariance);
}

bool is_frechet(const std::string& metric) {
  return std::ranges::any_of(feature_extractor_kinds(),
                             [&](const auto& kind) { return kind.name == metric; });
}

UserError lacks(const std::string& file, const std::vector<std::string>& names,
                const std::string& metric, bool from_images) {
  const auto arrays = gaussian_arrays(metric);
  std::string needed = is_frechet(metric)
                           ? fmt::format("'{}' and '{}'", arrays.mean, arrays.covariance)
                           : fmt::format("images '{}'", kNpzImages);
  if (is_frechet(metric) && from_images) needed += fmt::format(" or images '{}'", kNpzImages);
  return UserError("{}: {} needs {}, which it lacks (there are: {})", file, metric, needed,
                   quote(fmt::format("{}", fmt::join(names, ", ")), 200));
}

void log_other_resize(const std::string& file, const std::string& metric, const Gaussian& gaussian,
                      const Conventions& conventions) {
  const bool inception = metric_kind(metric).weights.front() == kInceptionWeights;
  if (!inception || !gaussian.resize || *gaussian.resize == conventions.inception) return;
  log("{}: the statistics in {} are of images resized {}, but these are resized {}, so the value "
      "is also that of the resizing; --conventions {} resizes alike",
      metric, file, resize_in_words(*gaussian.resize), resize_in_words(conventions.inception),
      *gaussian.resize == InceptionResize::tensorflow ? "adm" : "nsvq");
}

}  // namespace

std::shared_ptr<const Gaussian> Reference::of(const std::string& metric) const {
  const auto found = statistics.find(metric);
  return found == statistics.end() ? nullptr : found->second;
}

int64_t Reference::image_count() const {
  for (const auto& [metric, gaussian] : statistics) {
    if (gaussian->count > 0) return gaussian->count;
  }
  return images ? images->size() : 0;
}

Reference read_reference(const std::string& file, const std::vector<std::string>& metrics,
                         const Conventions& conventions, ReferenceImages images) {
  const bool in_file = images == ReferenceImages::in_file;
  const auto names = npz_names(file);
  Reference reference{file, {}, nullptr};
  bool needs_images = false;
  for (const auto& metric : metrics) {
    if (metric_kind(metric).input != MetricInput::sets) continue;
    const bool frechet = is_frechet(metric);
    if (frechet && has_statistics(names, metric)) {
      reference.statistics[metric] = std::make_shared<const Gaussian>(read_gaussian(file, metric));
    } else if (in_file ? !holds(names, kNpzImages) : frechet) {
      throw lacks(file, names, metric, in_file);
    } else {
      needs_images = true;
    }
  }
  for (const auto& [metric, gaussian] : reference.statistics) {
    log_other_resize(file, metric, *gaussian, conventions);
  }
  if (needs_images && in_file) reference.images = std::make_shared<NpzSource>(file);
  return reference;
}

}  // namespace nsvq
