#include "nsvq/metrics/metric_set.h"

#include <algorithm>

#include "nsvq/core/error.h"
#include "nsvq/core/precision.h"

namespace nsvq {

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

}  // namespace nsvq
