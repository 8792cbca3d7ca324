#include "nsvq/experiments/spec/experiment.h"

#include "nsvq/core/error.h"
#include "nsvq/core/lookup.h"
#include "nsvq/experiments/spec/checks.h"
#include "nsvq/io/files/file.h"
#include "nsvq/settings/option_table.h"
#include "nsvq/settings/settings_reader.h"
#include "nsvq/settings/yaml.h"

namespace nsvq {

namespace {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;

Range texts(const std::string& shown) { return Range::list(0, 1000, Range::any_text(shown)); }

const Range kText = Range::any_text("text");
const Range kSeeds = Range::list(1, 100, Range::at_least(0));

Names scale_names() { return {kScales.begin(), kScales.end()}; }

Range some_scales() { return Range::list(0, kScales.size(), Range::one_of(scale_names())); }

/// Removes the first word of a dotted key and returns it.
std::string pop_word(std::string& key) {
  const auto dot = key.find('.');
  const auto word = key.substr(0, dot);
  key = dot == std::string::npos ? "" : key.substr(dot + 1);
  return word;
}

template <typename Spec>
Spec& named(std::deque<Spec>& specs, const std::string& name) {
  for (auto& spec : specs) {
    if (spec.name == name) return spec;
  }
  specs.emplace_back().name = name;
  return specs.back();
}

/// Makes room for everything that the file names, so that a table can be bound to it.
void make_members(const std::vector<YamlSetting>& settings, Experiment& experiment) {
  for (const auto& setting : settings) {
    auto key = setting.key;
    const auto section = pop_word(key);
    if (key.empty()) continue;
    if (section == "scales") experiment.scales[pop_word(key)].given = true;
    if (section == "figures") named(experiment.figures, pop_word(key));
    if (section == "charts") named(experiment.charts, pop_word(key));
    if (section == "pictures") named(experiment.pictures, pop_word(key));
    if (section == "claims") named(experiment.claims, pop_word(key));
    if (section != "runs") continue;
    auto& run = named(experiment.runs, pop_word(key));
    const auto member = pop_word(key);
    if (member == "needs" && !key.empty()) run.needs[key];
    if (member == "paper" && !key.empty()) run.paper[key];
    const auto scales = scale_names();
    if (std::find(scales.begin(), scales.end(), member) != scales.end()) run.scales[member];
  }
}

void add_scale(std::vector<Option>& rows, const std::string& name, ScaleSpec& scale) {
  const auto key = "scales." + name + ".";
  rows.insert(
      rows.end(),
      {{key + "over", &scale.over, "recipes over each run's", texts("a path")},
       {key + "set", &scale.set, "settings of all runs", texts("key=value")},
       {key + "seeds", &scale.seeds, "seeds", kSeeds},
       {key + "columns", &scale.columns, "columns", texts("a column")},
       {key + "samples", &scale.samples, "images sampled for an evaluation", Range::at_least(2)},
       {key + "pilot.key", &scale.pilot.key, "a setting that pilots decide", kText},
       {key + "pilot.values", &scale.pilot.values, "its values", texts("a value")},
       {key + "pilot.set", &scale.pilot.set, "settings of pilots", texts("key=value")},
       {key + "pilot.metric", &scale.pilot.metric, "what decides", Range::not_empty()},
       {key + "about", &scale.about, "what the scale is", kText}});
}

void add_run(std::vector<Option>& rows, RunSpec& run) {
  const auto key = "runs." + run.name + ".";
  rows.insert(rows.end(),
              {{key + "title", &run.title, "name in tables", kText},
               {key + "kind", &run.kind, "what is run", Range::one_of(names_of(run_spec_kinds()))},
               {key + "recipe", &run.recipe, "recipe", kText},
               {key + "over", &run.over, "recipes over it and the scale", texts("a path")},
               {key + "set", &run.set, "settings of this run", texts("key=value")},
               {key + "vary", &run.vary, "a setting with a run for each of values", kText},
               {key + "values", &run.values, "its values", texts("a value")},
               {key + "row", &run.row, "whether it is a row of the table", Range::yes_no()},
               {key + "extra", &run.extra, "a row that * leaves out", Range::yes_no()},
               {key + "only", &run.only, "scales that it is part of", some_scales()}});
  for (auto& [setting, other] : run.needs) {
    rows.push_back({key + "needs." + setting, &other, "the run that it is", Range::not_empty()});
  }
  for (auto& [column, value] : run.paper) {
    rows.push_back(
        {key + "paper." + column, &value, "the paper's figure", Range::at_least(-1e300)});
  }
  for (auto& [name, scale] : run.scales) {
    const auto at = key + name + ".";
    rows.insert(rows.end(),
                {{at + "set", &scale.set, "settings at this scale", texts("key=value")},
                 {at + "values", &scale.values, "values at this scale", texts("a value")},
                 {at + "seeds", &scale.seeds, "seeds at this scale", kSeeds},
                 {at + "recipe", &scale.recipe, "recipe at this scale", kText},
                 {at + "skip", &scale.skip, "why it is left out", kText}});
  }
}

void add_figure(std::vector<Option>& rows, FigureSpec& figure) {
  const auto key = "figures." + figure.name + ".";
  const Names takes = {"first", "last", "mean", "median", "min", "max"};
  rows.insert(rows.end(),
              {{key + "title", &figure.title, "name in tables", kText},
               {key + "of", &figure.of, "KIND.KEY of metrics.jsonl", Range::not_empty()},
               {key + "take", &figure.take, "which of the values", Range::one_of(takes)},
               {key + "phase", &figure.phase, "phase of the values", kText},
               {key + "relative_to", &figure.relative_to, "a run to divide by", kText},
               {key + "better", &figure.better, "", Range::one_of({"higher", "lower"})},
               {key + "unit", &figure.unit, "behind the number", kText},
               {key + "scale", &figure.scale, "factor of the number", Range::above(0)},
               {key + "decimals", &figure.decimals, "of the number", Range::between(0, 12)}});
}

void add_chart(std::vector<Option>& rows, ChartSpec& chart) {
  const auto key = "charts." + chart.name + ".";
  rows.insert(rows.end(), {{key + "title", &chart.title, "title", kText},
                           {key + "kind", &chart.kind, "", Range::one_of({"curves", "sweep"})},
                           {key + "y", &chart.y, "KIND.KEY, of a sweep columns",
                            Range::list(1, 100, Range::any_text("a column"))},
                           {key + "runs", &chart.runs, "runs", texts("a run")},
                           {key + "apart", &chart.apart, "a chart for each run", Range::yes_no()},
                           {key + "x_label", &chart.x_label, "below the x axis", kText},
                           {key + "y_label", &chart.y_label, "beside the y axis", kText},
                           {key + "log_x", &chart.log_x, "logarithmic x axis", Range::yes_no()},
                           {key + "log_y", &chart.log_y, "logarithmic y axis", Range::yes_no()}});
}

/// Rows for every key that the file names.
OptionTable experiment_options(Experiment& experiment) {
  OptionTable table;
  auto& rows = table.rows;
  rows = {{"title", &experiment.title, "title", Range::not_empty()},
          {"about", &experiment.about, "a sentence or two", kText},
          {"data", &experiment.data, "name of the image set", Range::not_empty()},
          {"validation", &experiment.validation, "images to validate on",
           Range::one_of({"own", "training"})},
          {"columns", &experiment.columns, "columns of the table", texts("a column")}};
  for (auto& [name, scale] : experiment.scales) add_scale(rows, name, scale);
  for (auto& run : experiment.runs) add_run(rows, run);
  for (auto& figure : experiment.figures) add_figure(rows, figure);
  for (auto& chart : experiment.charts) add_chart(rows, chart);
  for (auto& picture : experiment.pictures) {
    const auto key = "pictures." + picture.name + ".";
    rows.insert(rows.end(),
                {{key + "title", &picture.title, "title", kText},
                 {key + "runs", &picture.runs, "runs", Range::list(1, 20, kText)},
                 {key + "images", &picture.images, "images", Range::between(1, 100)},
                 {key + "enlarge", &picture.enlarge, "times enlarged", Range::between(1, 16)}});
  }
  for (auto& claim : experiment.claims) {
    const auto key = "claims." + claim.name + ".";
    rows.insert(rows.end(),
                {{key + "text", &claim.text, "the claim in words", Range::not_empty()},
                 {key + "holds", &claim.holds, "comparisons", Range::list(1, 100, kText)},
                 {key + "scales", &claim.scales, "where it is tested", some_scales()}});
  }
  table.help = "docs/reproduce.md lists the keys of an experiment";
  return table;
}

}  // namespace

const std::vector<RunSpecKind>& run_spec_kinds() {
  static const std::vector<RunSpecKind> kinds = {
      {run_kind(RunKind::tokenizer).name, RunKind::tokenizer, {"train"}, {}},
      {run_kind(RunKind::diffusion).name, RunKind::diffusion, {"diffusion", "train"}, {}},
      {run_kind(RunKind::generator).name, RunKind::generator, {"generate", "train"}, {}},
      {"kmeans", std::nullopt, {}, {"codebook", "kmeans"}},
      {"features", std::nullopt, {}, {"codebook", "features"}}};
  return kinds;
}

bool is_trained(const std::string& kind) {
  return find_named(run_spec_kinds(), "kind", kind).trains.has_value();
}

bool trains(const std::string& kind, RunKind trained) {
  return find_named(run_spec_kinds(), "kind", kind).trains == trained;
}

RunKind trained_by(const std::string& kind) {
  return find_named(run_spec_kinds(), "kind", kind).trains.value();
}

const RunSpec* Experiment::find_run(std::string_view wanted) const {
  for (const auto& run : runs) {
    if (run.name == wanted) return &run;
  }
  return nullptr;
}

const FigureSpec* Experiment::find_figure(std::string_view wanted) const {
  for (const auto& figure : figures) {
    if (figure.name == wanted) return &figure;
  }
  return nullptr;
}

Experiment parse_experiment(const std::string& text, const fs::path& file) {
  Experiment experiment;
  experiment.file = file;
  experiment.name = file.stem().string();
  make_members(parse_yaml(text, file.string()), experiment);
  const auto table = experiment_options(experiment);
  SettingsReader reader(table);
  reader.read_text(text, file.string());
  check_experiment(experiment);
  return experiment;
}

Experiment read_experiment(const fs::path& file) {
  std::error_code ignored;
  if (fs::is_directory(file, ignored)) throw UserError("{}: a folder", file.string());
  constexpr uintmax_t most = 1 << 20;
  if (fs::is_regular_file(file, ignored) && fs::file_size(file, ignored) > most) {
    throw UserError("{}: over 1 MB, so not an experiment", file.string());
  }
  auto experiment = parse_experiment(read_text(file), file);
  require_recipes(experiment);
  return experiment;
}

}  // namespace nsvq
