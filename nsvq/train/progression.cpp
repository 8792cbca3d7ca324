#include "nsvq/train/progression.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "nsvq/core/error.h"

namespace nsvq {

using nlohmann::json;

namespace {

constexpr int kFormat = 2;

/// JSON has no NaN; null stands for it.
double number(const json& value) { return value.is_null() ? NAN : value.get<double>(); }

std::map<std::string, double> numbers(const json& values) {
  std::map<std::string, double> result;
  for (const auto& [name, value] : values.items()) result[name] = number(value);
  return result;
}

json health_to_json(const std::vector<HealthSigns>& health) {
  auto rows = json::array();
  for (const auto& epoch : health) {
    rows.push_back({epoch.utilisation, epoch.latent_norm, epoch.neighbours});
  }
  return rows;
}

Progression progression_from(const json& state) {
  Progression at;
  at.step = state.at("step");
  at.epoch = state.at("epoch");
  at.batch = state.at("batch");
  at.phase = state.at("phase");
  at.phase_start = state.at("phase_start");
  at.phase_start_step = state.at("phase_start_step");
  at.skipped = state.at("skipped");
  at.images = state.at("images");
  at.finished = state.at("finished");
  for (const auto& value : state.at("commitment")) at.commitment.push_back(number(value));
  for (const auto& row : state.at("health")) {
    at.health.push_back({number(row.at(0)), number(row.at(1)), number(row.at(2))});
  }
  at.alarms = state.at("alarms").get<std::set<std::string>>();
  at.drift = numbers(state.at("drift"));
  at.evaluation = numbers(state.at("evaluation"));
  at.best_psnr = number(state.at("best_psnr"));
  at.best_epoch = state.at("best_epoch");
  return at;
}

}  // namespace

std::string state_to_json(const Progression& at, const LogPosition& logs) {
  return json{{"format", kFormat},
              {"step", at.step},
              {"epoch", at.epoch},
              {"batch", at.batch},
              {"phase", at.phase},
              {"phase_start", at.phase_start},
              {"phase_start_step", at.phase_start_step},
              {"skipped", at.skipped},
              {"images", at.images},
              {"finished", at.finished},
              {"commitment", at.commitment},
              {"health", health_to_json(at.health)},
              {"alarms", at.alarms},
              {"drift", at.drift},
              {"evaluation", at.evaluation},
              {"best_psnr", at.best_psnr},
              {"best_epoch", at.best_epoch},
              {"metrics_length", logs.metrics},
              {"events", logs.events},
              {"events_length", logs.events_length}}
      .dump(1);
}

std::pair<Progression, LogPosition> state_from_json(const std::string& text,
                                                    const std::string& source) {
  try {
    const auto state = json::parse(text);
    if (state.at("format") != kFormat) {
      throw UserError("{}: written in format {}, this nsvq reads {}", source,
                      state.at("format").dump(), kFormat);
    }
    return {progression_from(state),
            {state.at("metrics_length"), state.at("events"), state.at("events_length")}};
  } catch (const json::exception& error) {
    throw UserError("{}: not a checkpoint's state ({})", source, error.what());
  }
}

}  // namespace nsvq
