#include "nsvq/cli/table.h"

#include <fmt/format.h>

#include <vector>

namespace nsvq {

namespace {

struct Row {
  const char* key;
  const char* title;
  const char* format;
  double scale;
};

// Anything else that a metric gives follows under its own name.
const std::vector<Row> kRows = {
    {"psnr", "PSNR, mean over images", "{:10.2f} dB", 1},
    {"psnr_pooled", "PSNR of the pooled error", "{:10.2f} dB", 1},
    {"ssim", "SSIM", "{:10.4f}", 1},
    {"utilisation", "codes used at least once", "{:10.1f} %", 100},
    {"perplexity", "perplexity of the codes", "{:10.1f}", 1},
    {"images", "images", "{:10.0f}", 1},
};

}  // namespace

std::string metric_table(const std::map<std::string, double>& values) {
  auto rest = values;
  std::string text;
  for (const auto& row : kRows) {
    const auto value = rest.find(row.key);
    if (value == rest.end()) continue;
    text += fmt::format("  {:28}", row.title) +
            fmt::format(fmt::runtime(row.format), value->second * row.scale) + "\n";
    rest.erase(value);
  }
  for (const auto& [name, value] : rest) text += fmt::format("  {:28}{:10.4g}\n", name, value);
  return text;
}

}  // namespace nsvq
