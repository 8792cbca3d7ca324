#include "nsvq/train/vq/health_monitor.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "nsvq/core/log.h"
#include "nsvq/metrics/usage.h"
#include "nsvq/nn/named_tensors.h"
#include "nsvq/ops/code_statistics/spectrum.h"
#include "nsvq/train/journal.h"
#include "nsvq/train/vq/state_json.h"

namespace nsvq {

namespace {

/// In how many directions latents and codes vary, as far as that was measured.
std::string text_of_directions(const DriftMonitor& drift) {
  const auto text =
      participation_text(drift.last("latents_participation"), drift.last("codes_participation"));
  return text.empty() ? "" : "  " + text;
}

/// The loss term that compares pixels, in means or totals by name.
template <typename ByName>
auto find_pixel_error(const ByName& all) {
  return std::ranges::find_if(
      all, [](const auto& one) { return one.first == "l1" || one.first == "l2"; });
}

}  // namespace

HealthMonitor::HealthMonitor(const TokenizerConfig& config, int64_t codes, int64_t window,
                             const CodebookUpkeep& upkeep, const DriftMonitor& drift)
    : config_(config), codes_(codes), window_(window), upkeep_(upkeep), drift_(drift) {
  windows_.usage = at::zeros({window > 0 ? codes : 0}, at::kLong);
}

/// The mean over the steps since the window began; NaN if all were skipped.
double HealthMonitor::window_error(const Journal& journal) {
  const auto totals = journal.epoch_totals();
  const auto error = find_pixel_error(totals);
  if (error == totals.end()) return NAN;
  const auto [sum, steps] = error->second;
  const double mean = (sum - windows_.error_sum) / (steps - windows_.error_steps);
  windows_.error_sum = sum;
  windows_.error_steps = steps;
  return mean;
}

/// The share of the codes, or of as many as there were latents, that won; NaN without codes.
double HealthMonitor::window_utilisation() {
  if (codes_ == 0) return NAN;
  const auto so_far = upkeep_.usage_so_far().to(at::kCPU, at::kLong, /*non_blocking=*/false,
                                                /*copy=*/true);
  const auto usage = so_far - windows_.usage;
  windows_.usage = so_far;
  const auto possible = std::min(codes_, usage.sum().item<int64_t>());
  return usage.gt(0).sum().item<double>() / static_cast<double>(possible);
}

void HealthMonitor::after_step(Journal& journal, const TensorBatch& /*batch*/) {
  windows_.history.push_back({window_utilisation(), NAN, NAN, window_error(journal)});
  raise(journal, windows_.alarms, alarms(config_, windows_.history, codes_, window_));
}

void HealthMonitor::end_epoch(Journal& journal, EpochLine& line) {
  const auto means = journal.epoch_means();
  const auto error = find_pixel_error(means);
  const double pixel_error = error == means.end() ? NAN : error->second;
  if (codes_ == 0) {  // the other signs are those of codes
    history_.push_back({NAN, NAN, NAN, pixel_error});
    line.text += text_of_directions(drift_);
    return;
  }
  const auto& usage = upkeep_.epoch_usage();
  const double used = utilisation(usage);
  const double commitment = journal.epoch_mean("commitment");
  const auto replaced = upkeep_.replaced();
  history_.push_back({used, drift_.last("latent_norm"),
                      means.contains("ns") ? drift_.last("neighbours") : NAN, pixel_error});
  line.values.insert({{"commitment", commitment},
                      {"utilisation", used},
                      {"perplexity", perplexity(usage)},
                      {"replaced", static_cast<double>(replaced)}});
  line.text += fmt::format("  commitment {:.5f}  codes used {:5.1f} %  replaced {}", commitment,
                           100 * used, replaced) +
               text_of_directions(drift_);
}

void HealthMonitor::epoch_logged(Journal& journal) {
  raise(journal, alarms_, alarms(config_, history_, codes_));
}

/// The epoch's counts begin anew, and with them those of the window.
void HealthMonitor::start_next_epoch(Journal& /*journal*/) {
  windows_.error_sum = windows_.error_steps = 0;
  windows_.usage.zero_();
}

/// Reports signs that no epoch and no window has reported; `reported` becomes those that hold.
void HealthMonitor::raise(Journal& journal, std::set<std::string>& reported,
                          const std::vector<AlarmSign>& signs) {
  std::set<std::string> holding;
  for (const auto& sign : signs) {
    holding.insert(sign.name);
    if (alarms_.contains(sign.name) || windows_.alarms.contains(sign.name)) continue;
    log("ALARM     {}", sign.text);
    journal.record_alarm(sign.name, sign.text);
  }
  reported = std::move(holding);
}

nlohmann::json HealthMonitor::to_json() const {
  auto health = nlohmann::json::array();
  for (const auto& epoch : history_) {
    health.push_back({epoch.utilisation, epoch.latent_norm, epoch.neighbours, epoch.pixel_error});
  }
  nlohmann::json all = {{"health", health}, {"alarms", alarms_}};
  if (window_ == 0) return all;
  auto windows = nlohmann::json::array();
  for (const auto& one : windows_.history) windows.push_back({one.utilisation, one.pixel_error});
  all["windows"] = {{"steps", window_},
                    {"health", windows},
                    {"alarms", windows_.alarms},
                    {"error_sum", windows_.error_sum},
                    {"error_steps", windows_.error_steps}};
  return all;
}

void HealthMonitor::from_json(const nlohmann::json& all) {
  history_.clear();
  for (const auto& row : all.at("health")) {
    // Earlier versions wrote three.
    history_.push_back({number_or_nan(row.at(0)), number_or_nan(row.at(1)),
                        number_or_nan(row.at(2)), row.size() > 3 ? number_or_nan(row.at(3)) : NAN});
  }
  alarms_ = all.at("alarms").get<std::set<std::string>>();
  // Earlier versions wrote none.
  if (!all.contains("windows") || all["windows"].at("steps") != window_) return;
  const auto& windows = all["windows"];
  windows_.history.clear();
  for (const auto& row : windows.at("health")) {
    windows_.history.push_back({number_or_nan(row.at(0)), NAN, NAN, number_or_nan(row.at(1))});
  }
  windows_.alarms = windows.at("alarms").get<std::set<std::string>>();
  windows_.error_sum = number_or_nan(windows.at("error_sum"));
  windows_.error_steps = number_or_nan(windows.at("error_steps"));
}

TensorMap HealthMonitor::training_state() const {
  if (window_ == 0) return {};
  return {{"alarm_usage", windows_.usage}};
}

void HealthMonitor::load(const TensorMap& training, const std::string& from) {
  const auto stored = training.find("alarm_usage");
  if (window_ == 0 || stored == training.end()) return;
  copy_tensors(training_state(), {*stored}, from);
}

}  // namespace nsvq
