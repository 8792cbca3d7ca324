#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nsvq/experiments/plan/plan.h"
#include "nsvq/runs/config.h"
#include "nsvq/runs/list.h"
#include "nsvq/runs/log.h"

namespace nsvq {

/// What the folder of a planned run holds now. Each of its files is read when it is first asked
/// for, and once; reading throws UserError for a damaged one.
class RunView {
 public:
  /// The plan lives as long as this.
  RunView(const Plan& plan, size_t run) : plan_(plan), run_(run) {}

  const Plan& plan() const { return plan_; }
  const PlannedRun& planned() const { return plan_.runs.at(run_); }
  /// Whether the run trains; if not, it only makes a file.
  bool trains() const { return !planned().recipe.empty(); }

  /// Whether training has begun, and whether it has ended.
  bool begun() const;
  bool finished() const { return begun() && summary().state == "finished"; }
  /// Steps done.
  int64_t step() const { return begun() ? summary().step : 0; }
  /// Whether the file that the run makes and what is measured of it are there.
  bool made() const;
  /// Settings of the run that lies in the folder.
  template <std::derived_from<RunConfig> Config>
  Config settings() const {
    return load_run_config<Config>(planned().run());
  }

  /// metrics.jsonl; empty where there is none.
  const RunLog& log() const;
  /// Figures by metric: what `nsvq eval` wrote, else training's last evaluation. Not finite: NaN.
  const std::map<std::string, double>& evaluation() const;
  /// Median time of a logged training step, in seconds; nullopt without a log.
  std::optional<double> seconds_a_step() const;
  /// The step at which the encoder froze; nullopt if it did not.
  std::optional<double> freeze() const;

  /// (step, value) of "KIND.KEY" in the log, of one phase if it is named. For a run that makes a
  /// file: KEY of its evaluation, at step 0.
  std::vector<std::pair<double, double>> curve(const std::string& of,
                                               const std::string& phase = "") const;
  /// A column's value; nullopt if the run has none, or it is not finite.
  std::optional<double> figure(const Experiment& experiment, const std::string& column) const;

  /// The value of the pilot with the best figure, the first of equal ones; the pilots are finished.
  /// Throws RunError if none of them has a finite figure.
  const std::string& chosen_value() const { return planned().pilots.values.at(best_pilot()); }
  /// The recipe that the run is trained by: with the chosen value, if it has pilots.
  const std::string& recipe() const;

 private:
  const RunSummary& summary() const;
  size_t best_pilot() const;

  const Plan& plan_;
  size_t run_;
  // What has been read.
  mutable std::optional<RunSummary> summary_;
  mutable std::optional<RunLog> log_;
  mutable std::optional<std::map<std::string, double>> evaluation_;
  mutable std::optional<size_t> best_pilot_;
};

}  // namespace nsvq
