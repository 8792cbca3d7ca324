#include "nsvq/experiments/experiment_check.h"

#include <algorithm>
#include <functional>
#include <map>

#include "nsvq/core/error.h"
#include "nsvq/core/lookup.h"
#include "nsvq/core/text.h"
#include "nsvq/experiments/comparison.h"
#include "nsvq/metrics/metric.h"

namespace nsvq {

namespace {

namespace fs = std::filesystem;

/// A message about a key of this file.
template <typename... Args>
UserError wrong(const Experiment& experiment, const std::string& key,
                fmt::format_string<Args...> format, Args&&... args) {
  return UserError("{}: {}: {}", experiment.file.string(), key,
                   fmt::format(format, std::forward<Args>(args)...));
}

void require_run(const Experiment& experiment, const std::string& key, const std::string& name) {
  if (experiment.find_run(name)) return;
  throw unknown_name("run", name, names_of(experiment.runs), experiment.file.string() + ": " + key);
}

/// A metric, a figure of the file, or the loss of a diffusion model's evaluation.
void require_column(const Experiment& experiment, const std::string& key, const std::string& name) {
  if (name == kLossColumn || find_metric_kind(name) || experiment.find_figure(name)) return;
  auto known = names_of(experiment.figures);
  for (const auto& kind : metric_kinds()) known.push_back(kind.name);
  throw unknown_name("column", name, known, experiment.file.string() + ": " + key);
}

void check_name(const Experiment& experiment, const std::string& key, const std::string& name) {
  const bool plain = name.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                         "0123456789_-+") == std::string::npos;
  if (plain && !name.empty() && name.size() <= 60) return;
  throw wrong(experiment, key, "{} is no name: letters, digits, - and _ alone", quote(name));
}

void check_runs(const Experiment& experiment) {
  if (experiment.runs.empty()) throw wrong(experiment, "runs", "there are none");
  for (const auto& run : experiment.runs) {
    const auto key = "runs." + run.name;
    check_name(experiment, "runs", run.name);
    const bool trained = run.kind == "tokenizer" || run.kind == "diffusion";
    if (trained && run.recipe.empty()) throw wrong(experiment, key, "recipe is missing");
    if (!trained && !run.recipe.empty()) {
      throw wrong(experiment, key, "recipe: a run of kind {} has none", run.kind);
    }
    if (run.vary.empty() != run.values.empty()) {
      throw wrong(experiment, key, "vary and values belong together");
    }
    if (run.kind == "kmeans" && !run.needs.contains("model")) {
      throw wrong(experiment, key, "needs.model: name the run whose latents are clustered");
    }
    for (const auto& [setting, other] : run.needs) {
      require_run(experiment, key + ".needs." + setting, other);
      if (!experiment.find_run(other)->vary.empty()) {
        throw wrong(experiment, key + ".needs." + setting, "{} is several runs (vary)", other);
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
  const auto& pilot = scale.pilot;
  if (pilot.key.empty() && pilot.values.empty() && pilot.set.empty()) return;
  if (pilot.key.empty() || pilot.values.size() < 2) {
    throw wrong(experiment, key + ".pilot", "needs a key and two values or more");
  }
  if (!find_metric_kind(pilot.metric)) {
    throw unknown_name("metric", pilot.metric, names_of(metric_kinds()),
                       experiment.file.string() + ": " + key + ".pilot.metric");
  }
}

/// Throws if a run needs itself, by way of others or not.
void check_order(const Experiment& experiment) {
  std::map<const RunSpec*, bool> done;  // false: its needs are being followed
  const std::function<void(const RunSpec&)> follow = [&](const RunSpec& run) {
    const auto [found, fresh] = done.try_emplace(&run, false);
    if (!fresh && !found->second) throw wrong(experiment, "runs." + run.name, "needs itself");
    if (!fresh) return;
    for (const auto& [setting, other] : run.needs) follow(*experiment.find_run(other));
    done[&run] = true;
  };
  for (const auto& run : experiment.runs) follow(run);
}

/// Every run has one of the seeds that its scale names, whatever its settings say.
void refuse_seed(const Experiment& experiment, const std::string& key,
                 const std::vector<std::string>& words) {
  for (const auto& word : words) {
    if (word.substr(0, word.find('=')) != "seed") continue;
    throw wrong(experiment, key, "seed cannot be set; name seeds by `seeds:` of the scale or run");
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

void check_figures(const Experiment& experiment) {
  for (const auto& figure : experiment.figures) {
    const auto key = "figures." + figure.name;
    if (figure.of.find('.') == std::string::npos) {
      throw wrong(experiment, key + ".of", "expected KIND.KEY of metrics.jsonl, got {}",
                  quote(figure.of));
    }
    if (!figure.relative_to.empty()) {
      require_run(experiment, key + ".relative_to", figure.relative_to);
    }
  }
}

void check_charts(const Experiment& experiment) {
  for (const auto& chart : experiment.charts) {
    const auto key = "charts." + chart.name;
    for (const auto& run : chart.runs) require_run(experiment, key + ".runs", run);
    if (chart.y.empty()) throw wrong(experiment, key, "y is missing");
    for (const auto& y : chart.y) {
      if (chart.kind == "sweep") {
        require_column(experiment, key + ".y", y);
      } else if (y.find('.') == std::string::npos) {
        throw wrong(experiment, key + ".y", "expected KIND.KEY of metrics.jsonl, got {}", quote(y));
      }
    }
    for (const auto& run : chart.runs) {
      if (chart.kind == "sweep" && experiment.find_run(run)->vary.empty()) {
        throw wrong(experiment, key + ".runs", "{} varies nothing, so it has no x", run);
      }
    }
  }
  for (const auto& picture : experiment.pictures) {
    check_name(experiment, "pictures", picture.name);  // of a file
    for (const auto& run : picture.runs) {
      require_run(experiment, "pictures." + picture.name + ".runs", run);
    }
  }
}

void check_claims(const Experiment& experiment) {
  for (const auto& claim : experiment.claims) {
    const auto key = "claims." + claim.name + ".holds";
    for (const auto& text : claim.holds) {
      const auto comparison = parse_comparison(text, experiment.file.string() + ": " + key);
      for (const auto& term : {comparison.left, comparison.right}) {
        if (term.column.empty()) continue;
        require_column(experiment, key, term.column);
        const auto matches = [&](const RunSpec& run) { return term.may_match(run.name); };
        if (!std::any_of(experiment.runs.begin(), experiment.runs.end(), matches)) {
          require_run(experiment, key, term.run);
        }
      }
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

void check_experiment(Experiment& experiment) {
  check_name(experiment, "the file's name", experiment.name);
  std::vector<std::string> scales(kScales.begin(), kScales.end());
  if (experiment.scales.empty()) throw wrong(experiment, "scales", "there are none");
  for (const auto& [name, scale] : experiment.scales) {
    if (std::find(scales.begin(), scales.end(), name) == scales.end()) {
      throw unknown_name("scale", name, scales, experiment.file.string() + ": scales");
    }
    check_scale(experiment, name, scale);
  }
  for (const auto& column : experiment.columns) require_column(experiment, "columns", column);
  check_runs(experiment);
  check_seeds(experiment);
  check_order(experiment);
  check_figures(experiment);
  check_charts(experiment);
  check_claims(experiment);
  complete(experiment);
}

}  // namespace nsvq
