#include "nsvq/experiments/plan/run_planner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <system_error>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/experiments/plan/next_command.h"
#include "nsvq/experiments/spec/comparison.h"
#include "nsvq/metrics/metric.h"
#include "nsvq/nn/weights.h"
#include "nsvq/train/run_setup.h"

namespace nsvq {

namespace {

namespace fs = std::filesystem;

/// Letters in a folder's name, apart from its hash: file systems allow 255 bytes.
constexpr size_t kLongestName = 100;

/// A value of the experiment's file is part of the name, and may have slashes.
std::string folder_name(const std::string& name, const std::string& hash) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-";
  auto plain = name.substr(0, kLongestName);
  for (auto& letter : plain) {
    if (kPlain.find(letter) == std::string_view::npos) letter = '-';
  }
  for (size_t i = 0; i < plain.size() && plain[i] == '.'; ++i) plain[i] = '-';
  return plain + "-" + hash;
}

std::string hash_of(const fs::path& folder) {
  const auto name = folder.filename().string();
  return name.substr(name.rfind('-') + 1);
}

/// For the hash of what weights make: which ones are stored, unless they are the official ones.
std::string unofficial_values(const std::string& weights) {
  try {
    const auto origin = weights_origin(weights);
    return origin.official ? "" : weights + " " + origin.sha256 + "\n";
  } catch (const UserError&) {  // missing
    return "";
  }
}

}  // namespace

RunPlanner::RunPlanner(const Experiment& experiment, const PlanOptions& options,
                       std::vector<std::string> metrics, Plan& plan)
    : experiment_(experiment),
      out_(options.out),
      settings_(experiment, options),
      metrics_(std::move(metrics)),
      plan_(plan) {}

size_t RunPlanner::add(const RunSpec& spec, const std::string& value, int64_t seed) {
  const auto known = added_.find({&spec, value, seed});
  if (known != added_.end()) return known->second;
  size_t index = 0;
  if (is_trained(spec.kind)) {
    auto run = begin(spec, value, seed);
    plan_training(spec, run);
    index = add_once(std::move(run));
  } else {
    index = add_file(spec, seed, {});
  }
  added_[{&spec, value, seed}] = index;
  return index;
}

bool RunPlanner::are_done(const std::vector<size_t>& runs) const {
  return std::all_of(runs.begin(), runs.end(),
                     [&](size_t run) { return is_done(RunView(plan_, run)); });
}

PlannedRun RunPlanner::begin(const RunSpec& spec, const std::string& value, int64_t seed) const {
  PlannedRun run;
  run.name = value.empty() ? spec.name : spec.name + "@" + value;
  run.kind = spec.kind;
  run.value = value;
  run.seed = seed;
  run.alone = spec.vary == kGpus;
  if (run.alone) run.gpus = static_cast<int>(number_of(value).value_or(1));
  if (spec.row) run.metrics = metrics_;
  run.samples = settings_.scale().samples;
  return run;
}

RunLayers RunPlanner::layers_of(const RunSpec& spec, PlannedRun& run) {
  auto layers = settings_.layers_of(spec, run.value, run.seed);
  add_needs(spec, run, layers);
  return layers;
}

/// The hash has the names of the needed runs, not the path of the folder of all runs.
void RunPlanner::add_needs(const RunSpec& spec, PlannedRun& run, RunLayers& layers) {
  const auto where = settings_.where("runs." + spec.name + ".needs");
  for (const auto& [setting, name] : spec.needs) {
    const auto& needed = *experiment_.find_run(name);
    const bool file = !is_trained(needed.kind);
    run.needs.push_back(file ? add_file(needed, run.seed, images_of(run.kind, layers))
                             : add(needed, "", run.seed));
    const auto& need = plan_.runs[run.needs.back()];
    const auto path = fs::absolute(file ? need.file() : need.run()).lexically_normal();
    layers.real.add(where, {setting + "=" + path.string()});
    layers.hashed.add(where, {setting + "=/" + need.folder.filename().string()});
  }
}

void RunPlanner::plan_training(const RunSpec& spec, PlannedRun& run) {
  const auto layers = layers_of(spec, run);
  const bool tried =
      spec.row && trains(spec.kind, RunKind::tokenizer) && !settings_.scale().pilot.key.empty();
  auto also_hashed = tried ? plan_pilots(spec, layers, run) : "";
  // Runs that differ in this alone stay two: their times may be what is compared.
  if (!run.value.empty() && !is_essential(spec.vary)) {
    also_hashed += fmt::format("{}={}\n", spec.vary, run.value);
  }
  fill_in(layers, also_hashed, run);
  if (tried) run.recipe = run.pilots.recipes.front();
}

/// Returns what the hash of the decided run has of its pilots: which ones they are.
std::string RunPlanner::plan_pilots(const RunSpec& spec, const RunLayers& layers, PlannedRun& run) {
  const auto& pilot = settings_.scale().pilot;
  run.pilots.metric = pilot.metric;
  run.pilots.values = pilot.values;
  auto hashed = "pilots by " + pilot.metric + "\n";
  for (const auto& choice : pilot.values) {
    auto chosen = layers;
    chosen.add(settings_.scale_key("pilot"), {pilot.key + "=" + choice});
    run.pilots.recipes.push_back(resolve_settings(spec.kind, chosen.real).yaml);
    run.pilots.runs.push_back(add_pilot(spec, run.value, choice));
    hashed += hash_of(plan_.runs[run.pilots.runs.back()].folder) + "\n";
  }
  run.needs.insert(run.needs.end(), run.pilots.runs.begin(), run.pilots.runs.end());
  return hashed;
}

/// Pilots have one seed, so that a row's seeds are all trained with one value.
size_t RunPlanner::add_pilot(const RunSpec& spec, const std::string& value,
                             const std::string& choice) {
  auto run = begin(spec, value, settings_.pilot_seed(spec));
  auto layers = layers_of(spec, run);
  layers.add(settings_.scale_key("pilot"), {settings_.scale().pilot.key + "=" + choice});
  layers.add(settings_.scale_key("pilot.set"), settings_.scale().pilot.set);
  run.name += "-pilot-" + choice;
  run.metrics = {find_metric_kind(settings_.scale().pilot.metric)->name};
  fill_in(layers, "", run);
  return add_once(std::move(run));
}

/// Fills in what follows from a trained run's settings: recipe, budget, folder.
void RunPlanner::fill_in(const RunLayers& layers, const std::string& also_hashed,
                         PlannedRun& run) const {
  const auto settings = resolve_settings(run.kind, layers.real);
  const auto essence = resolve_settings(run.kind, layers.hashed).essence;
  const auto& train = settings.run.train;
  run.recipe = settings.yaml;
  run.train = training_sources(settings.run.data);
  run.val = validation_sources(settings.run.data);
  run.steps = train.steps;
  run.epochs = train.epochs;
  run.size = settings.run.data.size;
  try {
    run.batch = run.gpus * rank_batch(train, run.gpus);
  } catch (const UserError& error) {
    throw UserError("{}: {}", settings_.where("runs." + run.name), error.what());
  }
  if (!trains(run.kind, RunKind::tokenizer)) {
    std::erase_if(run.metrics, [](const auto& name) { return name != "fid"; });
  }
  const auto gpus = run.gpus > 1 ? fmt::format("gpus={}\n", run.gpus) : "";
  const auto hash = short_hash(run.kind + "\n" + essence + also_hashed + gpus);
  run.folder = out_ / "runs" / folder_name(run.name, hash);
}

/// A file that `nsvq codebook` makes: from the training images of a model, of the run that needs it
/// (`images`), or of the scale.
size_t RunPlanner::add_file(const RunSpec& spec, int64_t seed, Sources images) {
  auto run = begin(spec, "", seed);
  run.metrics.clear();
  std::string needs;
  for (const auto& [setting, name] : spec.needs) {
    run.needs.push_back(add(*experiment_.find_run(name), "", seed));
    images = plan_.runs[run.needs.back()].train;
    needs += plan_.runs[run.needs.back()].folder.filename().string() + "\n";
  }
  if (images.items.empty()) images = settings_.images_of_scale();
  run.train = images;
  run.options = settings_.options_of(spec, seed);
  if (spec.kind == "features") needs += unofficial_values(settings_.network_of(spec).weights);
  const auto hashed =
      fmt::format("{}\n{}\n{}{}", spec.kind, images.text(), needs, fmt::join(run.options, " "));
  run.folder = out_ / "runs" / folder_name(run.name, short_hash(hashed));
  return add_once(std::move(run));
}

/// Runs with equal settings are one, whatever their names.
size_t RunPlanner::add_once(PlannedRun run) {
  for (size_t i = 0; i < plan_.runs.size(); ++i) {
    auto& planned = plan_.runs[i];
    if (hash_of(planned.folder) != hash_of(run.folder)) continue;
    for (const auto& metric : run.metrics) {
      auto& known = planned.metrics;
      if (std::find(known.begin(), known.end(), metric) == known.end()) known.push_back(metric);
    }
    return i;
  }
  // An earlier call may have had the same run under the name of another experiment.
  std::error_code none;
  for (const auto& entry : entries_of(run.folder.parent_path(), none)) {
    if (hash_of(entry.path()) == hash_of(run.folder)) run.folder = entry.path();
  }
  plan_.runs.push_back(std::move(run));
  return plan_.runs.size() - 1;
}

}  // namespace nsvq
