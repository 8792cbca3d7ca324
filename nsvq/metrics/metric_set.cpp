#include "nsvq/metrics/metric_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/precision.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/metrics/sets/image_sets.h"
#include "nsvq/metrics/sets/inception_features.h"
#include "nsvq/nn/weights.h"

namespace nsvq {

namespace {

std::shared_ptr<const Reference> open_reference(const MetricRequest& request,
                                                const MetricChoice& choice) {
  const auto& file = request.statistics;
  if (file.empty()) return nullptr;
  auto reference = read_reference(file, choice.names, choice.conventions, request.images);
  const bool whole = request.images == ReferenceImages::in_file;
  const bool serves =
      whole ? std::ranges::any_of(choice.names, is_of_sets) : !reference.statistics.empty();
  if (!serves) {
    throw UserError("{}: statistics are for Fréchet distances; ask for one (--metrics fid)", file);
  }
  return std::make_shared<const Reference>(std::move(reference));
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
  choice.reference = open_reference(request, choice);
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

void add_figures(Json& json, const std::map<std::string, double>& values) {
  for (const auto& name : {"images", "reference_images", "broken_images"}) {
    const auto count = values.find(name);
    if (count != values.end()) json[name] = std::llround(count->second);
  }
  for (const auto& kind : metric_kinds()) {
    const auto value = values.find(kind.name);
    if (value != values.end()) json[kind.name] = value->second;
    const auto deviation = values.find(deviation_name(kind.name));
    if (deviation != values.end()) json[deviation->first] = deviation->second;
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

std::string deviation_name(const std::string& metric) { return metric + "_std"; }

MetricSet::MetricSet(const std::vector<std::string>& names, const MetricOptions& asked) {
  auto options = asked;
  for (const auto& name : names) {
    const auto& kind = metric_kind(name);
    if (metrics_.contains(kind.name)) continue;
    if (kind.input == MetricInput::tokens && options.codes == 0) {
      throw UserError("{} is a figure of tokens, and there are none", kind.name);
    }
    if (std::ranges::find(kind.weights, kInceptionWeights) != kind.weights.end()) {
      options.inception = inception_ = inception_features(kind.name, options);
    }
    metrics_[kind.name] = kind.make(options);
  }
}

void MetricSet::add(const EvalBatch& batch) {
  const Tf32Guard exact(Tf32Work::convolutions, false);
  if (inception_) inception_->remember();
  for (auto& [name, metric] : metrics_) metric->add(batch);
  if (inception_) inception_->forget();
}

void MetricSet::join(Group& group) {
  for (auto& [name, metric] : metrics_) metric->join(group);
}

void MetricSet::reset() {
  for (auto& [name, metric] : metrics_) metric->reset();
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
    if (const auto deviation = metric->deviation()) values[deviation_name(name)] = *deviation;
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
