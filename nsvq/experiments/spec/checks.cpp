#include "nsvq/experiments/spec/checks.h"

#include <algorithm>
#include <functional>
#include <map>

#include "nsvq/core/error.h"
#include "nsvq/core/lookup.h"
#include "nsvq/core/text.h"
#include "nsvq/metrics/metric.h"

namespace nsvq {

namespace {

namespace fs = std::filesystem;

/// Checks the values of a run that varies the number of GPUs.
void check_gpus(const Experiment& experiment, const RunSpec& run, const std::string& key,
                const std::vector<std::string>& values) {
  if (run.vary != kGpus) return;
  if (!is_trained(run.kind)) {
    throw wrong_key(experiment, key, "a run of kind {} is not trained", run.kind);
  }
  for (const auto& value : values) {
    const auto number = parse_decimal(value);
    if (number && *number >= 1 && *number <= 999 && value.front() != '0') continue;
    throw wrong_key(experiment, key, "expected a number of GPUs (1 to 999), got {}", quote(value));
  }
}

void check_runs(const Experiment& experiment) {
  if (experiment.runs.empty()) throw wrong_key(experiment, "runs", "there are none");
  for (const auto& run : experiment.runs) {
    const auto key = "runs." + run.name;
    check_name(experiment, "runs", run.name);
    const bool trained = is_trained(run.kind);
    if (trained && run.recipe.empty()) throw wrong_key(experiment, key, "recipe is missing");
    if (!trained && !run.recipe.empty()) {
      throw wrong_key(experiment, key, "recipe: a run of kind {} has none", run.kind);
    }
    if (!trained && !run.over.empty()) {
      throw wrong_key(experiment, key, "over: a run of kind {} has no recipe", run.kind);
    }
    if (run.vary.empty() != run.values.empty()) {
      throw wrong_key(experiment, key, "vary and values belong together");
    }
    refuse_twice(experiment, key + ".values", run.values);
    check_gpus(experiment, run, key + ".values", run.values);
    for (const auto& [name, scale] : run.scales) {
      const auto at = key + "." + name;
      if (run.vary.empty() && !scale.values.empty()) {
        throw wrong_key(experiment, at + ".values", "the run varies nothing (vary)");
      }
      refuse_twice(experiment, at + ".values", scale.values);
      check_gpus(experiment, run, at + ".values", scale.values);
      refuse_twice(experiment, at + ".seeds", scale.seeds);
    }
    if (run.kind == "kmeans" && !run.needs.contains("model")) {
      throw wrong_key(experiment, key, "needs.model: name the run whose latents are clustered");
    }
    for (const auto& [setting, other] : run.needs) {
      require_run(experiment, key + ".needs." + setting, other);
      if (!experiment.find_run(other)->vary.empty()) {
        throw wrong_key(experiment, key + ".needs." + setting, "{} is several runs (vary)", other);
      }
    }
    for (const auto& [column, value] : run.paper) {
      require_column(experiment, key + ".paper", column);
    }
  }
}

void check_scale(const Experiment& experiment, const std::string& name, const ScaleSpec& scale) {
  const auto key = "scales." + name;
  for (const auto& column : scale.columns) require_column(experiment, key + ".columns", column);
  refuse_twice(experiment, key + ".columns", scale.columns);
  refuse_twice(experiment, key + ".seeds", scale.seeds);
  refuse_twice(experiment, key + ".pilot.values", scale.pilot.values);
  const auto& pilot = scale.pilot;
  if (pilot.key.empty() && pilot.values.empty() && pilot.set.empty()) return;
  if (pilot.key.empty() || pilot.values.size() < 2) {
    throw wrong_key(experiment, key + ".pilot", "needs a key and two values or more");
  }
  if (!find_metric_kind(pilot.metric)) {
    throw unknown_name("metric", pilot.metric, names_of(metric_kinds()),
                       experiment.file.string() + ": " + key + ".pilot.metric");
  }
}

/// Throws if a run needs itself, directly or through other runs.
void check_order(const Experiment& experiment) {
  std::map<const RunSpec*, bool> done;  // false: its needs are being followed
  const std::function<void(const RunSpec&)> follow = [&](const RunSpec& run) {
    const auto [found, fresh] = done.try_emplace(&run, false);
    if (!fresh && !found->second) throw wrong_key(experiment, "runs." + run.name, "needs itself");
    if (!fresh) return;
    for (const auto& [setting, other] : run.needs) follow(*experiment.find_run(other));
    done[&run] = true;
  };
  for (const auto& run : experiment.runs) follow(run);
}

/// Runs have the seeds that their scale names, so settings may not set one.
void refuse_seed(const Experiment& experiment, const std::string& key,
                 const std::vector<std::string>& words) {
  for (const auto& word : words) {
    if (word.substr(0, word.find('=')) != "seed") continue;
    throw wrong_key(experiment, key,
                    "seed cannot be set; name seeds by `seeds:` of the scale or run");
  }
}

void check_seeds(const Experiment& experiment) {
  for (const auto& [name, scale] : experiment.scales) {
    const auto key = "scales." + name;
    refuse_seed(experiment, key + ".set", scale.set);
    refuse_seed(experiment, key + ".pilot.set", scale.pilot.set);
    refuse_seed(experiment, key + ".pilot.key", {scale.pilot.key});
  }
  for (const auto& run : experiment.runs) {
    const auto key = "runs." + run.name;
    refuse_seed(experiment, key + ".set", run.set);
    refuse_seed(experiment, key + ".vary", {run.vary});
    for (const auto& [name, scale] : run.scales) {
      refuse_seed(experiment, key + "." + name + ".set", scale.set);
    }
  }
}

void complete(Experiment& experiment) {
  const auto folder = experiment.file.parent_path();
  const auto locate = [&](std::string& path) {
    if (!path.empty()) path = (folder / path).lexically_normal().string();
  };
  if (experiment.title.empty()) experiment.title = experiment.name;
  for (auto& run : experiment.runs) {
    if (run.title.empty()) run.title = run.name;
    locate(run.recipe);
    for (auto& path : run.over) locate(path);
    for (auto& [name, scale] : run.scales) locate(scale.recipe);
  }
  for (auto& [name, scale] : experiment.scales) {
    for (auto& path : scale.over) locate(path);
  }
  for (auto& figure : experiment.figures) {
    if (figure.title.empty()) figure.title = figure.name;
  }
}

}  // namespace

void require_run(const Experiment& experiment, const std::string& key, const std::string& name) {
  if (experiment.find_run(name)) return;
  throw unknown_name("run", name, names_of(experiment.runs), experiment.file.string() + ": " + key);
}

/// A metric, a figure of the file, or the loss of a generating model's evaluation.
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

void require_recipes(const Experiment& experiment) {
  const auto require = [&](const std::string& key, const std::string& path) {
    std::error_code ignored;
    if (path.empty() || fs::exists(path, ignored)) return;
    throw wrong_key(experiment, key, "there is no file {}", path);
  };
  const auto require_all = [&](const std::string& key, const std::vector<std::string>& paths) {
    for (const auto& path : paths) {
      if (path.empty()) throw wrong_key(experiment, key, "a path is empty");
      require(key, path);
    }
  };
  for (const auto& run : experiment.runs) {
    const auto key = "runs." + run.name;
    require(key + ".recipe", run.recipe);
    require_all(key + ".over", run.over);
    for (const auto& [name, scale] : run.scales)
      require(key + "." + name + ".recipe", scale.recipe);
  }
  for (const auto& [name, scale] : experiment.scales) {
    require_all("scales." + name + ".over", scale.over);
  }
}

void check_experiment(Experiment& experiment) {
  check_name(experiment, "the file's name", experiment.name);
  if (experiment.name == "index") {
    throw wrong_key(experiment, "the file's name", "index.html is the page of all experiments");
  }
  std::vector<std::string> scales(kScales.begin(), kScales.end());
  if (experiment.scales.empty()) throw wrong_key(experiment, "scales", "there are none");
  for (const auto& [name, scale] : experiment.scales) {
    if (std::find(scales.begin(), scales.end(), name) == scales.end()) {
      throw unknown_name("scale", name, scales, experiment.file.string() + ": scales");
    }
    check_scale(experiment, name, scale);
  }
  for (const auto& column : experiment.columns) require_column(experiment, "columns", column);
  refuse_twice(experiment, "columns", experiment.columns);
  check_runs(experiment);
  check_seeds(experiment);
  check_order(experiment);
  check_shown(experiment);
  complete(experiment);
}

}  // namespace nsvq
