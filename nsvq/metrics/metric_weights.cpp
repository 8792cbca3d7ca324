#include "nsvq/metrics/metric_weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "nsvq/io/formats/json.h"
#include "nsvq/metrics/metric.h"
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
