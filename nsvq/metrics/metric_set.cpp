#include "nsvq/metrics/metric_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/precision.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/metrics/feature_extractor.h"
#include "nsvq/metrics/frechet.h"
#include "nsvq/nn/weights.h"

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

namespace {

std::vector<std::string> files_behind(const std::vector<std::string>& metrics) {
  std::vector<std::string> files;
  for (const auto& metric : metrics) {
    for (const auto& file : metric_kind(metric).weights) {
      if (std::find(files.begin(), files.end(), file) == files.end()) files.push_back(file);
    }
  }
  return files;
}

}  // namespace

MetricSet::MetricSet(const std::vector<std::string>& names, const MetricOptions& options) {
  for (const auto& name : names) {
    const auto& kind = metric_kind(name);
    if (metrics_.contains(kind.name)) continue;
    if (kind.input == MetricInput::tokens && options.codes == 0) {
      throw UserError("{} is a figure of tokens, and there are none", kind.name);
    }
    metrics_[kind.name] = kind.make(options);
  }
}

void MetricSet::add(const EvalBatch& batch) {
  const Tf32Guard exact(Tf32Work::convolutions, false);
  for (auto& [name, metric] : metrics_) metric->add(batch);
}

std::vector<torch::Tensor> MetricSet::sums() {
  std::vector<torch::Tensor> all;
  for (auto& [name, metric] : metrics_) {
    for (auto& sum : metric->sums()) all.push_back(sum);
  }
  return all;
}

void MetricSet::reset() {
  for (auto& sum : sums()) sum.zero_();  // they are the metrics' whole state
}

ImageStatistics MetricSet::image_statistics() const {
  ImageStatistics statistics;
  for (const auto& [name, metric] : metrics_) {
    if (auto known = metric->image_statistics()) statistics[name] = std::move(known);
  }
  return statistics;
}

void MetricSet::know_images(const ImageStatistics& statistics) {
  for (const auto& [name, known] : statistics) {
    const auto metric = metrics_.find(name);
    if (metric != metrics_.end()) metric->second->know_images(known);
  }
}

std::map<std::string, double> MetricSet::values() const {
  std::map<std::string, double> values;
  for (const auto& [name, metric] : metrics_) {
    if (const auto value = metric->value()) values[name] = *value;
  }
  return values;
}

std::vector<std::string> parse_metric_names(const std::string& list) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const auto& name = metric_kind(list.substr(begin, end - begin)).name;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    begin = end + 1;
  }
  return names;
}

std::vector<std::string> describe_weights(const std::vector<std::string>& metrics) {
  std::vector<std::string> lines;
  for (const auto& file : files_behind(metrics)) {
    const auto origin = weights_origin(file);
    lines.push_back(fmt::format("{}: {}", file, describe_values(origin.official, origin.source)));
  }
  return lines;
}

Json weights_as_json(const std::vector<std::string>& metrics) {
  auto json = Json::object();
  for (const auto& file : files_behind(metrics)) {
    const auto origin = weights_origin(file);
    json[file] = {{"values", origin.official ? "official" : "other"},
                  {"source", origin.source},
                  {"sha256", origin.sha256}};
  }
  return json;
}

}  // namespace nsvq
