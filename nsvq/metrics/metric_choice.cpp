#include "nsvq/metrics/metric_choice.h"

#include <algorithm>
#include <cmath>

#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/metrics/feature_extractor.h"
#include "nsvq/metrics/frechet.h"
#include "nsvq/metrics/metric_set.h"

namespace nsvq {

namespace {

std::shared_ptr<const Gaussian> read_reference(const std::string& file,
                                               const std::vector<std::string>& metrics) {
  if (file.empty()) return nullptr;
  if (std::none_of(metrics.begin(), metrics.end(), is_frechet)) {
    throw UserError("{}: statistics are for Fréchet distances; ask for one (--metrics fid)", file);
  }
  return std::make_shared<const Gaussian>(read_gaussian(file));
}

std::vector<std::string> default_metrics(Measured measured) {
  std::vector<std::string> names;
  for (const auto& kind : metric_kinds()) {
    const bool fits = kind.input != MetricInput::tokens || measured == Measured::images_and_tokens;
    if (fits && kind.weights.empty()) names.push_back(kind.name);
  }
  return names;
}

}  // namespace

MetricChoice choose_metrics(const MetricRequest& request, Measured measured) {
  MetricChoice choice = {
      request.metrics.empty() ? default_metrics(measured) : parse_metric_names(request.metrics),
      find_conventions(request.as), nullptr};
  choice.reference = read_reference(request.statistics, choice.names);
  if (!request.pixels.empty()) {
    auto& conventions = choice.conventions;
    conventions.pixels = conventions.network = find_pixel_rule(request.pixels);
    conventions.name += " but pixels " + request.pixels;
  }
  return choice;
}

MetricChoice without_tokens(MetricChoice choice) {
  std::erase_if(choice.names, [](const std::string& name) {
    return metric_kind(name).input == MetricInput::tokens;
  });
  return choice;
}

bool is_frechet(const std::string& metric) {
  return metric_kind(metric).input == MetricInput::sets;
}

void require_all(const MetricChoice& choice, const std::map<std::string, double>& values) {
  for (const auto& name : choice.names) {
    if (!values.contains(name)) throw UserError("{} needs at least two images", name);
  }
}

void warn_of_few_images(const MetricChoice& choice, const std::map<std::string, double>& values) {
  double images = values.at("images");
  const auto reference = values.find("reference_images");
  if (reference != values.end()) images = std::min(images, reference->second);
  for (const auto& name : choice.names) warn_of_few_images(name, images);
}

void warn_of_few_images(const std::string& metric, double images) {
  for (const auto& kind : feature_extractor_kinds()) {
    if (kind.name != metric || images > static_cast<double>(kind.channels)) continue;
    log("{}: {} images are too few for {} features; the value says more of their number than of "
        "the images, so compare it with values of as many images alone",
        kind.name, images, kind.channels);
  }
}

void add_figures(Json& json, const std::map<std::string, double>& values) {
  for (const auto& name : {"images", "reference_images", "broken_images"}) {
    const auto count = values.find(name);
    if (count != values.end()) json[name] = std::llround(count->second);
  }
  for (const auto& kind : metric_kinds()) {
    const auto value = values.find(kind.name);
    if (value != values.end()) json[kind.name] = value->second;
  }
}

Json describe_choice(const MetricChoice& choice) {
  Json json = {{"as", choice.conventions.name}};
  for (const auto& name : choice.names) {
    json[name] = metric_kind(name).choices(choice.conventions);
  }
  return json;
}

}  // namespace nsvq
