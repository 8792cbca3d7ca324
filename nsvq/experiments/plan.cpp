#include "nsvq/experiments/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/data/source.h"
#include "nsvq/experiments/resolve.h"
#include "nsvq/io/weights.h"
#include "nsvq/metrics/metric.h"

namespace nsvq {

namespace {

namespace fs = std::filesystem;

/// Why a metric cannot be measured here; empty if it can.
std::string missing_weights(const MetricKind& kind) {
  for (const auto& name : kind.weights) {
    try {
      weights_origin(name);
    } catch (const UserError& error) {
      return error.what();
    }
  }
  return "";
}

const Sources* find_source(const std::map<std::string, Sources>& sources, const std::string& name) {
  auto found = sources.find(name);
  if (found == sources.end()) found = sources.find("");
  return found == sources.end() ? nullptr : &found->second;
}

std::string folder_name(const std::string& name, const std::string& hash) {
  auto plain = name;
  std::replace(plain.begin(), plain.end(), '@', '-');
  return plain + "-" + hash;
}

std::string hash_of(const fs::path& folder) {
  const auto name = folder.filename().string();
  return name.substr(name.rfind('-') + 1);
}

/// Plans the runs of one experiment into a plan of several.
class Planner {
 public:
  Planner(const Experiment& experiment, const PlanOptions& options, Plan& plan)
      : experiment_(experiment), options_(options), plan_(plan) {
    const auto found = experiment.scales.find(options.scale);
    if (found == experiment.scales.end()) {
      std::vector<std::string> names;
      for (const auto& [name, scale] : experiment.scales) names.push_back(name);
      throw UserError("{}: has no scale {} (there are: {})", experiment.file.string(),
                      options.scale, fmt::join(names, ", "));
    }
    scale_ = &found->second;
  }

  PlannedExperiment planned() {
    PlannedExperiment result{&experiment_, {}, {}, {}};
    choose_columns(result);
    for (const auto& spec : experiment_.runs) {
      if (spec.row) add_rows(spec, result);
    }
    return result;
  }

 private:
  /// Columns whose weights are stored; the others are left out with a note.
  void choose_columns(PlannedExperiment& result) {
    const auto& wanted = scale_->columns.empty() ? experiment_.columns : scale_->columns;
    for (const auto& column : wanted) {
      const auto* kind = find_metric_kind(column);
      const auto missing = kind && !experiment_.find_figure(column) ? missing_weights(*kind) : "";
      if (missing.empty()) {
        result.columns.push_back(column);
      } else {
        result.notes.push_back(fmt::format("{} is not measured: {}", column, missing));
      }
    }
    for (const auto& column : result.columns) {
      if (const auto* kind = find_metric_kind(column); kind && !experiment_.find_figure(column)) {
        metrics_.push_back(kind->name);
      }
    }
  }

  const RunAtScale& at_scale(const RunSpec& spec) const {
    static const RunAtScale nothing;
    const auto found = spec.scales.find(options_.scale);
    return found == spec.scales.end() ? nothing : found->second;
  }

  void add_rows(const RunSpec& spec, PlannedExperiment& result) {
    const auto& here = at_scale(spec);
    if (!here.skip.empty()) {
      result.notes.push_back(fmt::format("{} is left out: {}", spec.title, here.skip));
      return;
    }
    std::vector<std::string> values = here.values.empty() ? spec.values : here.values;
    if (spec.vary.empty()) values = {""};
    for (const auto& value : values) {
      PlannedRow row{value.empty() ? spec.name : spec.name + "@" + value,
                     value.empty() ? spec.title : fmt::format("{}, {}", spec.title, value),
                     spec.title,
                     value,
                     &spec,
                     {},
                     ""};
      for (const int64_t seed : seeds()) row.runs.push_back(add_run(spec, value, seed));
      result.rows.push_back(std::move(row));
    }
  }

  const std::vector<int64_t>& seeds() const {
    return options_.seeds.empty() ? scale_->seeds : options_.seeds;
  }

  std::string where(const std::string& key) const { return experiment_.file.string() + ": " + key; }

  SettingsLayers layers_of(const RunSpec& spec, const std::string& value, int64_t seed) const {
    const auto& here = at_scale(spec);
    SettingsLayers layers;
    layers.recipes = {here.recipe.empty() ? spec.recipe : here.recipe};
    if (spec.kind == "tokenizer") {
      layers.recipes.insert(layers.recipes.end(), scale_->over.begin(), scale_->over.end());
      layers.overrides.emplace_back(where("scales." + options_.scale + ".set"), scale_->set);
    }
    layers.overrides.emplace_back(where("runs." + spec.name + ".set"), spec.set);
    layers.overrides.emplace_back(where("runs." + spec.name + "." + options_.scale + ".set"),
                                  here.set);
    if (!value.empty()) {
      layers.overrides.push_back({where("runs." + spec.name + ".vary"), {spec.vary + "=" + value}});
    }
    layers.overrides.push_back({"seed", {fmt::format("seed={}", seed)}});
    return layers;
  }

  void set_images(Config& config) const {
    if (const auto* train = find_source(options_.train, experiment_.data)) {
      config.data.train = *train;
    }
    if (const auto* val = find_source(options_.val, experiment_.data)) config.data.val = *val;
  }

  /// The words that name the images of the command line, if any.
  void add_images(SettingsLayers& layers) const {
    const auto add = [&](const std::string& key, const Sources* sources) {
      if (!sources) return;
      std::vector<std::string> words;
      for (const auto& item : sources->items) words.push_back(key + "=" + item);
      layers.overrides.emplace_back("--data", words);
    };
    add("data.train", find_source(options_.train, experiment_.data));
    add("data.val", find_source(options_.val, experiment_.data));
  }

  size_t add_run(const RunSpec& spec, const std::string& value, int64_t seed) {
    PlannedRun run;
    run.name = value.empty() ? spec.name : spec.name + "@" + value;
    run.kind = spec.kind;
    run.value = value;
    run.seed = seed;
    run.metrics = metrics_;
    run.samples = scale_->samples;
    const bool trained = spec.kind == "tokenizer" || spec.kind == "diffusion";
    trained ? plan_training(spec, seed, run) : plan_file(spec, seed, run);
    return add_once(std::move(run));
  }

  void plan_training(const RunSpec& spec, int64_t seed, PlannedRun& run) {
    auto layers = layers_of(spec, run.value, seed);
    add_images(layers);
    // The hash has the names of the runs that are needed, not the place where all of them lie.
    auto hashed = layers;
    for (const auto& [setting, name] : spec.needs) {
      run.needs.push_back(add_run(*experiment_.find_run(name), "", seed));
      const auto& other = plan_.runs[run.needs.back()];
      const bool file = other.kind == "kmeans" || other.kind == "features";
      const auto path = fs::absolute(file ? other.file() : other.run()).lexically_normal();
      layers.overrides.push_back({where("needs"), {setting + "=" + path.string()}});
      hashed.overrides.push_back(
          {where("needs"), {setting + "=/" + other.folder.filename().string()}});
    }
    const auto settings = resolve_settings(spec.kind, layers);
    const auto essence = resolve_settings(spec.kind, hashed).essence;
    run.recipe = settings.yaml;
    run.train = settings.run.data.train;
    run.val = settings.run.data.val;
    run.steps = settings.run.train.steps;
    run.epochs = settings.run.train.epochs;
    run.batch = settings.run.train.global_batch > 0
                    ? settings.run.train.global_batch
                    : settings.run.train.batch_size * settings.run.train.accumulate;
    if (spec.kind == "diffusion")
      std::erase_if(run.metrics, [](auto& name) { return name != "fid"; });
    run.folder =
        options_.out / "runs" / folder_name(run.name, short_hash(spec.kind + "\n" + essence));
  }

  /// A file that `nsvq codebook` makes of the training images.
  void plan_file(const RunSpec& spec, int64_t seed, PlannedRun& run) {
    Config images;
    const auto base = SettingsLayers{scale_->over, {{where("scales"), scale_->set}}};
    if (!scale_->over.empty()) images = resolve_settings("tokenizer", base).run;
    set_images(images);
    run.train = images.data.train;
    run.metrics.clear();
    std::string text = spec.kind + "\n" + images.data.train.text() + "\n";
    for (const auto& [setting, name] : spec.needs) {
      run.needs.push_back(add_run(*experiment_.find_run(name), "", seed));
      text += plan_.runs[run.needs.back()].folder.filename().string() + "\n";
    }
    for (const auto* words : {&spec.set, &at_scale(spec).set}) {
      for (const auto& word : *words) {
        const auto equals = word.find('=');
        if (equals == std::string::npos) {
          throw UserError("{}: expected option=value, got {}", where("runs." + spec.name + ".set"),
                          quote(word));
        }
        run.options.push_back("--" + word.substr(0, equals));
        run.options.push_back(word.substr(equals + 1));
      }
    }
    run.options.insert(run.options.end(), {"--seed", fmt::format("{}", seed)});
    text += fmt::format("{}", fmt::join(run.options, " "));
    run.folder = options_.out / "runs" / folder_name(run.name, short_hash(text));
  }

  /// Another run with the same settings takes its place, under whatever name.
  size_t add_once(PlannedRun run) {
    for (size_t i = 0; i < plan_.runs.size(); ++i) {
      auto& other = plan_.runs[i];
      if (hash_of(other.folder) != hash_of(run.folder)) continue;
      for (const auto& metric : run.metrics) {
        auto& known = other.metrics;
        if (std::find(known.begin(), known.end(), metric) == known.end()) known.push_back(metric);
      }
      return i;
    }
    // An earlier call may have had the same run under the name of another experiment.
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(run.folder.parent_path(), none)) {
      if (hash_of(entry.path()) == hash_of(run.folder)) run.folder = entry.path();
    }
    plan_.runs.push_back(std::move(run));
    return plan_.runs.size() - 1;
  }

  const Experiment& experiment_;
  const PlanOptions& options_;
  Plan& plan_;
  const ScaleSpec* scale_ = nullptr;
  std::vector<std::string> metrics_;
};

}  // namespace

Plan make_plan(const std::vector<Experiment>& experiments, const PlanOptions& options) {
  Plan plan{options.scale, {}, {}};
  for (const auto& experiment : experiments) {
    plan.experiments.push_back(Planner(experiment, options, plan).planned());
  }
  return plan;
}

void require_images(const Plan& plan) {
  std::set<std::string> known;
  for (const auto& run : plan.runs) {
    for (auto sources : {run.train, run.val}) {
      if (sources.items.empty() || !known.insert(sources.text()).second) continue;
      sources.pipes_allowed = true;
      try {
        open_source(sources);
      } catch (const UserError& error) {
        throw UserError("{} (images of {}; --data and --val name yours)", error.what(), run.name);
      }
    }
  }
}

}  // namespace nsvq
