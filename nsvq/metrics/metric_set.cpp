#include "nsvq/metrics/metric_set.h"

#include <fmt/format.h>

#include <algorithm>

#include "nsvq/core/error.h"
#include "nsvq/core/precision.h"
#include "nsvq/nn/weights.h"

namespace nsvq {

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
