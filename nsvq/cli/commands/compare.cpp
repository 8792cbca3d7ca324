#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>

#include "nsvq/cli/arguments/metric_arguments.h"
#include "nsvq/cli/arguments/model_arguments.h"
#include "nsvq/cli/arguments/output_name.h"
#include "nsvq/cli/output/json_output.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/data/images/grid.h"
#include "nsvq/data/sources/image_names.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/metrics/metric_table.h"
#include "nsvq/tokenizer/evaluate.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

struct CompareArguments {
  std::vector<std::string> models;
  ModelArguments common;
  MetricArguments metrics;
  std::string out;
  int64_t pictures = 8;
  int enlarge = 1;
  bool spread = false, transpose = false;
};

std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& name : fs::path(path).lexically_normal()) {
    if (!name.empty()) names.push_back(name.string());
  }
  return names;
}

/// Removes the leading folders that all paths share; at least one name of each path is kept.
void drop_common_folders(std::vector<std::vector<std::string>>& paths) {
  const auto common = [&](const auto& path) {
    return path.size() > 1 && path.front() == paths.front().front();
  };
  while (std::all_of(paths.begin(), paths.end(), common)) {
    for (auto& path : paths) path.erase(path.begin());
  }
}

/// Column titles: the models' paths without their common leading and trailing folders.
std::vector<std::string> titles_of(const std::vector<std::string>& models) {
  std::vector<std::vector<std::string>> paths;
  for (const auto& model : models) paths.push_back(names_in(model));
  for (int side = 0; side < 2; ++side) {
    drop_common_folders(paths);
    for (auto& path : paths) std::reverse(path.begin(), path.end());
  }
  std::vector<std::string> titles;
  for (const auto& names : paths) {
    fs::path title;
    for (const auto& name : names) title /= name;
    titles.push_back(title.string());
  }
  return titles;
}

/// Checks before any evaluation that all models can be loaded, use images of one size and were
/// trained on others.
void check_models(const CompareArguments& arguments) {
  int64_t size = 0;
  for (const auto& model : arguments.models) {
    const auto data = load_model(model).config.data;
    if (size == 0) size = data.size;
    if (data.size != size) {
      throw UserError("{} takes images of {} pixels, {} of {}; compare models of one image size",
                      arguments.models[0], size, model, data.size);
    }
    judges_training_images(arguments.common.data, model, data, arguments.common.on_training_images);
  }
}

/// Images and their reconstructions by a model.
struct Samples {
  std::vector<Image> images, reconstructions;

  void add(const EvalBatch& batch, const std::vector<int64_t>& indices,
           const std::set<int64_t>& wanted) {
    for (int64_t i = 0; i < batch.images.size(0); ++i) {
      if (!wanted.contains(indices[static_cast<size_t>(i)])) continue;
      images.push_back(to_image(batch.images[i]));
      reconstructions.push_back(to_image(batch.reconstructions[i]));
    }
  }
};

/// Indices of the images in the picture: the first, or evenly spread ones.
std::set<int64_t> wanted_images(const CompareArguments& arguments, int64_t count) {
  const int64_t most = std::min(arguments.pictures, count);
  std::set<int64_t> wanted;
  for (int64_t i = 0; i < most; ++i) {
    wanted.insert(arguments.spread ? (2 * i + 1) * count / (2 * most) : i);
  }
  return wanted;
}

struct Compared {
  std::string file;
  int64_t images = 0;  ///< in the source
  MetricColumn column;
  Samples samples;
};

/// What models before this one know of the images, by data.max_pixels: larger images are left out.
using KnownImages = std::map<int64_t, ImageStatistics>;

Compared compare_one(const CompareArguments& arguments, size_t number, const std::string& title,
                     const MetricChoice& choice, KnownImages& known) {
  auto model = arguments.common;
  model.model.name = arguments.models[number];
  ModelOnData opened(model);
  Compared result{opened.session.file().string(), opened.source->size(), {title, {}}, {}};
  const auto wanted = wanted_images(arguments, opened.source->size());
  const auto keep = [&](const EvalBatch& batch, const std::vector<int64_t>& indices) {
    result.samples.add(batch, indices, wanted);
  };
  const auto own = opened.session.codes() > 0 ? choice : without_tokens(choice);
  result.column.values = measure(
      opened.session, {model.data.text(), opened.source, opened.options}, own,
      {.title = title, .on_batch = keep, .known = &known[opened.session.config().data.max_pixels]});
  return result;
}

Json to_json(const CompareArguments& arguments, const MetricChoice& choice,
             const std::vector<Compared>& results) {
  Json json = {{"data", arguments.common.data.text()}, {"conventions", describe_choice(choice)}};
  add_origins(json, arguments.metrics, choice);
  for (const auto& result : results) {
    Json one = {{"name", result.column.title}, {"model", result.file}};
    add_figures(one, result.column.values);
    json["models"].push_back(one);
  }
  return json;
}

std::vector<std::vector<Image>> transposed(const std::vector<std::vector<Image>>& rows) {
  std::vector<std::vector<Image>> columns(rows.front().size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) columns[i].push_back(row[i]);
  }
  return columns;
}

void write_picture(const CompareArguments& arguments, const std::vector<Compared>& results) {
  const auto& out = arguments.out;
  if (out.empty()) return;
  std::vector<std::vector<Image>> rows = {results.front().samples.images};
  std::string names = "images";
  for (const auto& result : results) {
    rows.push_back(result.samples.reconstructions);
    names += ", " + result.column.title;
  }
  if (arguments.transpose) rows = transposed(rows);
  write_image(out, enlarge(make_grid(rows), arguments.enlarge));
  fmt::print("{}, {}: {}\n", out,
             arguments.transpose ? "columns from the left" : "rows from the top", names);
  const int64_t shown = std::ssize(results.front().samples.images), all = results.front().images;
  if (shown < all) {
    fmt::print("{} of {} shown; --pictures N shows more\n", shown, count_of(all, "image"));
  }
}

void run_compare(const CompareArguments& arguments) {
  if (arguments.models.size() < 2) throw UserError("nsvq compare: give at least two models");
  const auto choice = choose_metrics(arguments.metrics, Measured::images_and_tokens);
  if (!arguments.out.empty() && !is_image_name(arguments.out)) {
    throw UserError("--out {}: end the name in .png or .jpg", arguments.out);
  }
  const auto& [json, force] = arguments.metrics.json;
  auto others = named_sources(arguments.common.data);
  others.push_back({"--json", json});
  check_output_files({{"--out", arguments.out}}, force, others);
  JsonOutput output(arguments.metrics.json);
  check_models(arguments);
  const auto titles = titles_of(arguments.models);
  std::vector<Compared> results;
  std::vector<MetricColumn> columns;
  KnownImages known;
  for (size_t i = 0; i < titles.size(); ++i) {
    results.push_back(compare_one(arguments, i, titles[i], choice, known));
    columns.push_back(results.back().column);
  }
  fmt::print("on {}, as {}\n{}", arguments.common.data.text(), choice.conventions.name,
             metric_table(columns, choice.conventions));
  print_origins(columns.front().values, choice, {arguments.common.data.text()});
  write_picture(arguments, results);
  output.write(to_json(arguments, choice, results));
}

}  // namespace

void declare_compare(CLI::App& app) {
  const auto arguments = std::make_shared<CompareArguments>();
  app.add_option("MODEL", arguments->models,
                 "two or more: runs' folders, checkpoints or model.safetensors files")
      ->required();
  declare_data_arguments(app, arguments->common);
  declare_on_training_images(app, arguments->common);
  declare_metric_arguments(app, arguments->metrics, Measured::images_and_tokens);
  declare_statistics_argument(app, arguments->metrics);
  app.add_option("--out", arguments->out,
                 "FILE.png or FILE.jpg: images, and below a row for each model")
      ->type_name("FILE");
  app.add_option("--pictures", arguments->pictures, "number of images in --out")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--spread", arguments->spread,
               "spread them evenly over the data, not the first ones")
      ->group(kRare);
  app.add_flag("--transpose", arguments->transpose, "a column per model in --out, not a row")
      ->group(kRare);
  app.add_option("--enlarge", arguments->enlarge, "enlarge --out so many times, pixel by pixel")
      ->check(CLI::Range(1, 16))
      ->capture_default_str()
      ->group(kRare);
  app.callback([arguments] { run_compare(*arguments); });
}

}  // namespace nsvq
