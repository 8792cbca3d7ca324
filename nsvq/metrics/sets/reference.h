#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nsvq/data/sources/source.h"
#include "nsvq/metrics/conventions.h"
#include "nsvq/metrics/sets/frechet.h"

namespace nsvq {

/// Statistics of images by metric.
using ImageStatistics = std::map<std::string, std::shared_ptr<const Gaussian>>;

/// What a file (.npz) holds of the images that others are compared with: statistics, images, or
/// both, as the files of ADM's evaluator do.
struct Reference {
  std::string file;
  ImageStatistics statistics;
  std::shared_ptr<const Source> images;  ///< where a metric needs them

  /// Null where there are none for this metric.
  std::shared_ptr<const Gaussian> of(const std::string& metric) const;
  /// Images behind the statistics, or else those that it holds; 0 where it is unknown.
  int64_t image_count() const;
};

/// Where the reference's images come from.
enum class ReferenceImages {
  in_file,    ///< from the file, for metrics that it has no statistics for
  elsewhere,  ///< from a source of their own: the file's statistics are for Fréchet distances
};

/// What these metrics need of a file. Throws UserError, naming what the file lacks. Statistics of
/// images that FID's network saw resized in another way get a line in the log.
Reference read_reference(const std::string& file, const std::vector<std::string>& metrics,
                         const Conventions& conventions, ReferenceImages images);

}  // namespace nsvq
