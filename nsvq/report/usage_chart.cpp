#include "nsvq/report/usage_chart.h"

#include <fmt/format.h>

#include "nsvq/report/chart.h"

namespace nsvq {

std::string usage_chart(const torch::Tensor& hits) {
  const auto sorted = std::get<0>(hits.cpu().to(torch::kDouble).sort(0, /*descending=*/true));
  const int64_t codes = sorted.numel(), used = sorted.count_nonzero().item<int64_t>();
  Series uses{"uses of a code", {}, {}};
  for (int64_t i = 0; i < used; ++i) {
    uses.x.push_back(static_cast<double>(i + 1));
    uses.y.push_back(sorted.const_data_ptr<double>()[i]);
  }
  const auto last = static_cast<double>(codes);
  const double even = sorted.sum().item<double>() / last;
  Chart chart;
  chart.title = fmt::format("Code usage: {} of {} codes used", used, codes);
  chart.x_label = "codes, most used first";
  chart.y_label = "uses";
  chart.series = {uses, {"all codes alike", {1, last}, {even, even}}};
  chart.log_y = true;  // Unused codes have no place on it: the line ends before them.
  chart.x_range = {1, last};
  return to_svg(chart) + "\n";
}

}  // namespace nsvq
