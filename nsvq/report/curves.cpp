#include "nsvq/report/curves.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace nsvq {
namespace {

struct Line {
  std::string kind, key, name;
};

struct Curve {
  std::string title, y_label;
  std::vector<Line> lines;
  bool terms = false;  ///< of a loss: absent if zero throughout, drawn logarithmic at need
};

const std::vector<Curve>& known_curves() {
  static const std::vector<Curve> curves = {
      {"PSNR", "dB", {{"eval", "psnr", "mean of images"}, {"eval", "psnr_pooled", "pooled"}}},
      {"SSIM", "", {{"eval", "ssim", "SSIM"}}},
      {"Codebook utilisation",
       "share of codes",
       {{"epoch", "utilisation", "training epoch"}, {"eval", "utilisation", "validation"}}},
      {"Codebook perplexity",
       "codes",
       {{"epoch", "perplexity", "training epoch"}, {"eval", "perplexity", "validation"}}},
      {"Loss and reconstruction terms",
       "loss",
       {{"step", "loss", "total"},
        {"step", "l1", "L1"},
        {"step", "l2", "L2"},
        {"epoch", "loss", "total, epoch mean"}},
       true},
      {"Quantizer terms",
       "loss",
       {{"step", "vq", "vq"},
        {"step", "commitment", "commitment"},
        {"step", "embedding", "embedding"},
        {"step", "ns", "non-stationary"}},
       true},
      {"Commitment, epoch mean", "loss", {{"epoch", "commitment", "commitment"}}},
      {"Codes replaced", "codes per epoch", {{"epoch", "replaced", "replaced"}}},
      {"Speed", "images per second", {{"step", "images_per_second", "images per second"}}},
  };
  return curves;
}

/// What no curve names: one curve a key, with a line for every kind of record that has it.
std::vector<Curve> other_curves(const RunLog& log) {
  std::set<std::pair<std::string, std::string>> known = {{"epoch", "seconds"}};
  for (const Curve& curve : known_curves())
    for (const Line& line : curve.lines) known.emplace(line.kind, line.key);
  std::map<std::string, std::set<std::string>> kinds_of_key;
  for (const Record& record : log.records)
    if (record.kind != "phase")
      for (const auto& [key, value] : record.values)
        if (!known.contains({record.kind, key})) kinds_of_key[key].insert(record.kind);
  std::vector<Curve> curves;
  for (const auto& [key, kinds] : kinds_of_key) {
    Curve curve{key, "", {}};
    for (const std::string& kind : kinds) curve.lines.push_back({kind, key, kind});
    curves.push_back(curve);
  }
  return curves;
}

/// Where small terms would lie on the axis. Zeros have no say: they are terms switched off.
bool wants_log(const std::vector<Series>& series) {
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (const Series& one : series)
    for (const double y : one.y) {
      if (!std::isfinite(y) || y == 0) continue;
      low = std::min(low, y);
      high = std::max(high, y);
    }
  return low > 0 && high > 50 * low;
}

bool worth_drawing(const Series& series, bool terms) {
  return std::any_of(series.y.begin(), series.y.end(), [&](double y) { return !terms || y != 0; });
}

Chart make_chart(const RunLog& log, const Curve& curve) {
  Chart chart;
  chart.title = curve.title;
  chart.x_label = "step";
  chart.y_label = curve.y_label;
  for (const Line& line : curve.lines) {
    Series series{line.name, {}, {}};
    for (const auto& [step, value] : log.values(line.kind, line.key)) {
      series.x.push_back(step);
      series.y.push_back(value);
    }
    if (worth_drawing(series, curve.terms)) chart.series.push_back(std::move(series));
  }
  chart.log_y = curve.terms && wants_log(chart.series);
  if (chart.log_y) chart.y_label += ", log scale";
  chart.x_range = {0, log.last_step()};
  for (const Record& phase : log.phases()) chart.marks.push_back({phase.step, phase.phase});
  return chart;
}

}  // namespace

std::vector<Chart> make_curves(const RunLog& log) {
  std::vector<Curve> curves = known_curves();
  for (Curve& curve : other_curves(log)) curves.push_back(std::move(curve));
  std::vector<Chart> charts;
  for (const Curve& curve : curves) {
    Chart chart = make_chart(log, curve);
    if (!chart.series.empty()) charts.push_back(std::move(chart));
  }
  return charts;
}

}  // namespace nsvq
