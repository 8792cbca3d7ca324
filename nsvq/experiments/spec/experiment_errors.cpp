#include "nsvq/experiments/spec/experiment_errors.h"

#include "nsvq/core/lookup.h"
#include "nsvq/core/text.h"
#include "nsvq/metrics/metric.h"
#include "nsvq/recipe/run_kind.h"

namespace nsvq {

void require_run(const Experiment& experiment, const std::string& key, const std::string& name) {
  if (experiment.find_run(name)) return;
  throw unknown_name("run", name, names_of(experiment.runs), experiment.file.string() + ": " + key);
}

/// A metric, a figure of the file, or the loss of a diffusion model's evaluation.
void require_column(const Experiment& experiment, const std::string& key, const std::string& name) {
  if (is_loss_column(name) || find_metric_kind(name) || experiment.find_figure(name)) return;
  auto known = names_of(experiment.figures);
  for (const auto& kind : metric_kinds()) known.push_back(kind.name);
  throw unknown_name("column", name, known, experiment.file.string() + ": " + key);
}

void check_name(const Experiment& experiment, const std::string& key, const std::string& name) {
  const bool plain = name.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                         "0123456789_-+") == std::string::npos;
  if (plain && !name.empty() && name.size() <= 60) return;
  throw wrong_key(experiment, key, "{} is no name: letters, digits, - and _ alone", quote(name));
}

}  // namespace nsvq
