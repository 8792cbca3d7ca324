#include "nsvq/experiments/plan/run_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "nsvq/core/error.h"
#include "nsvq/core/lookup.h"
#include "nsvq/core/text.h"

namespace nsvq {

namespace {

using Words = std::vector<std::string>;

const Sources* find_source(const std::map<std::string, Sources>& sources, const std::string& name) {
  auto found = sources.find(name);
  if (found == sources.end()) found = sources.find("");
  return found == sources.end() ? nullptr : &found->second;
}

/// Adds words key=value as options --key value; a later value replaces an earlier one.
void add_options(const Words& words, const std::string& where, Words& options) {
  for (const auto& word : words) {
    const auto equals = word.find('=');
    if (equals == std::string::npos) {
      throw UserError("{}: expected option=value, got {}", where, quote(word));
    }
    const auto option = "--" + word.substr(0, equals), value = word.substr(equals + 1);
    const auto found = std::find(options.begin(), options.end(), option);
    if (found != options.end()) {
      *std::next(found) = value;
    } else {
      options.insert(options.end(), {option, value});
    }
  }
}

}  // namespace

void RunLayers::add_recipes(const Words& paths) {
  real.add_recipes(paths);
  hashed.add_recipes(paths);
}

void RunLayers::add(const std::string& where, const Words& words) {
  real.add(where, words);
  hashed.add(where, words);
}

RunSettings::RunSettings(const Experiment& experiment, const PlanOptions& options)
    : experiment_(experiment), options_(options), scale_(experiment.scales.at(options.scale)) {}

const RunAtScale& RunSettings::at_scale(const RunSpec& spec) const {
  static const RunAtScale nothing;
  const auto found = spec.scales.find(options_.scale);
  return found == spec.scales.end() ? nothing : found->second;
}

const std::vector<int64_t>& RunSettings::seeds_of(const RunSpec& spec) const {
  return options_.seeds.empty() ? own_seeds(spec) : options_.seeds;
}

const std::vector<int64_t>& RunSettings::own_seeds(const RunSpec& spec) const {
  const auto& own = at_scale(spec).seeds;
  return own.empty() ? scale_.seeds : own;
}

std::string RunSettings::where(const std::string& key) const {
  return experiment_.file.string() + ": " + key;
}

std::string RunSettings::scale_key(const std::string& key) const {
  return where("scales." + options_.scale + "." + key);
}

RunLayers RunSettings::layers_of(const RunSpec& spec, const std::string& value,
                                 int64_t seed) const {
  const auto& here = at_scale(spec);
  const auto& recipe = here.recipe.empty() ? spec.recipe : here.recipe;
  RunLayers layers;
  layers.real.name = layers.hashed.name =
      fmt::format("{} ({})", where("runs." + spec.name), recipe);
  layers.add_recipes({recipe});
  if (trains(spec.kind, RunKind::tokenizer)) {
    layers.add_recipes(scale_.over);
    layers.add(scale_key("set"), scale_.set);
  }
  layers.add_recipes(spec.over);
  layers.add(where("runs." + spec.name + ".set"), spec.set);
  layers.add(where("runs." + spec.name + "." + options_.scale + ".set"), here.set);
  if (!value.empty() && spec.vary != kGpus) {
    refuse_other_images(spec);
    layers.add(where("runs." + spec.name + ".vary"), {spec.vary + "=" + value});
  }
  layers.add("seed", {fmt::format("seed={}", seed)});
  add_images(layers);
  if (experiment_.validation == "training") {
    Words words;
    for (const auto& item : images_of(spec.kind, layers).items) words.push_back("data.val=" + item);
    layers.add(where("validation"), words);
    layers.real.add(where("validation"), {"data.on_training_images=true"});
  }
  return layers;
}

/// Throws if the images that a run varies are those of the command line.
void RunSettings::refuse_other_images(const RunSpec& spec) const {
  const auto refuse = [&](const std::string& key, const std::string& option,
                          const std::map<std::string, Sources>& named) {
    if (spec.vary != key || !find_source(named, experiment_.data)) return;
    throw UserError("{}: the run varies {}, so {} cannot name other images; leave {} out",
                    where("runs." + spec.name + ".vary"), key, option, option);
  };
  refuse("data.train", "--data", options_.train);
  refuse("data.val", "--val", options_.val);
}

/// Adds the images of the command line, if any.
void RunSettings::add_images(RunLayers& layers) const {
  const auto add = [&](const std::string& key, const Sources* sources) {
    if (!sources) return;
    Words words;
    for (const auto& item : sources->items) words.push_back(key + "=" + item);
    layers.add("--data", words);
  };
  add("data.train", find_source(options_.train, experiment_.data));
  add("data.val", find_source(options_.val, experiment_.data));
}

Sources RunSettings::images_of_scale() const {
  if (scale_.over.empty()) return {};
  RunLayers layers;
  layers.add_recipes(scale_.over);
  layers.add(scale_key("set"), scale_.set);
  add_images(layers);
  return images_of("tokenizer", layers);
}

Words RunSettings::options_of(const RunSpec& spec, int64_t seed) const {
  Words options;
  for (const auto* words : {&spec.set, &at_scale(spec).set}) {
    add_options(*words, where("runs." + spec.name + ".set"), options);
  }
  options.insert(options.end(), {"--seed", fmt::format("{}", seed)});
  return options;
}

const FeatureNetKind& RunSettings::network_of(const RunSpec& spec) const {
  const auto options = options_of(spec, 0);
  const auto found = std::find(options.begin(), options.end(), "--net");
  const auto name = found == options.end() ? kUsualFeatureNet : *std::next(found);
  return find_named(feature_net_kinds(), "feature network", name,
                    where("runs." + spec.name + ".set"));
}

Sources images_of(const std::string& kind, const RunLayers& layers) {
  return training_sources(resolve_settings(kind, layers.real).run.data);
}

}  // namespace nsvq
