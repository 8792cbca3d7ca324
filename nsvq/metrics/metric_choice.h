#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "nsvq/io/formats/json.h"
#include "nsvq/metrics/conventions.h"
#include "nsvq/metrics/frechet.h"

namespace nsvq {

/// Metrics and conventions as a person names them.
struct MetricRequest {
  std::string metrics;  ///< "psnr,ssim"; empty: all that need no weights
  std::string as = "nsvq";
  std::string pixels;      ///< rounded, truncated or float; empty: what the conventions say
  std::string statistics;  ///< .npz that replaces the images of Fréchet distances
};

/// Whether there are tokens to measure beside images.
enum class Measured { images_and_tokens, images };

struct MetricChoice {
  std::vector<std::string> names;
  Conventions conventions;
  std::shared_ptr<const Gaussian> reference;  ///< from the request's statistics
};

/// Throws UserError for unknown names and for statistics that cannot be read or serve nothing.
MetricChoice choose_metrics(const MetricRequest& request, Measured measured);

/// Without the figures of tokens, for a model that has none.
MetricChoice without_tokens(MetricChoice choice);

/// Whether it compares images as sets, so that they need no partners.
bool is_frechet(const std::string& metric);

/// Throws UserError naming the first metric without a value: too few images.
void require_all(const MetricChoice& choice, const std::map<std::string, double>& values);

/// A line in the log for each Fréchet distance of no more images than its network has features:
/// such a covariance has no full rank.
void warn_of_few_images(const MetricChoice& choice, const std::map<std::string, double>& values);
void warn_of_few_images(const std::string& metric, double images);

/// Adds figures under their names, counts as whole numbers.
void add_figures(Json& json, const std::map<std::string, double>& values);
/// "as" and, for each metric, the choices behind it.
Json describe_choice(const MetricChoice& choice);

}  // namespace nsvq
