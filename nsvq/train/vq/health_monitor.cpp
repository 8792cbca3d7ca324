#include "nsvq/train/vq/health_monitor.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "nsvq/core/log.h"
#include "nsvq/metrics/usage.h"
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

}  // namespace

void HealthMonitor::end_epoch(Journal& journal, EpochLine& line) {
  const auto means = journal.epoch_means();
  const auto error = std::ranges::find_if(
      means, [](const auto& mean) { return mean.first == "l1" || mean.first == "l2"; });
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
  std::set<std::string> holding;
  for (const auto& alarm : alarms(config_, history_, codes_)) {
    holding.insert(alarm.name);
    if (alarms_.contains(alarm.name)) continue;
    log("ALARM     {}", alarm.text);
    journal.record_alarm(alarm.name, alarm.text);
  }
  alarms_ = holding;
}

nlohmann::json HealthMonitor::to_json() const {
  auto health = nlohmann::json::array();
  for (const auto& epoch : history_) {
    health.push_back({epoch.utilisation, epoch.latent_norm, epoch.neighbours, epoch.pixel_error});
  }
  return {{"health", health}, {"alarms", alarms_}};
}

void HealthMonitor::from_json(const nlohmann::json& all) {
  history_.clear();
  for (const auto& row : all.at("health")) {
    // Earlier versions wrote three.
    history_.push_back({number_or_nan(row.at(0)), number_or_nan(row.at(1)),
                        number_or_nan(row.at(2)), row.size() > 3 ? number_or_nan(row.at(3)) : NAN});
  }
  alarms_ = all.at("alarms").get<std::set<std::string>>();
}

}  // namespace nsvq
