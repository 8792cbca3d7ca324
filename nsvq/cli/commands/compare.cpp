#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "nsvq/cli/arguments/metric_arguments.h"
#include "nsvq/cli/arguments/model_arguments.h"
#include "nsvq/cli/arguments/output_name.h"
#include "nsvq/cli/output/json_output.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/core/error.h"
#include "nsvq/data/images/grid.h"
#include "nsvq/data/sources/image_names.h"
#include "nsvq/metrics/metric_table.h"
#include "nsvq/tokenizer/measure.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

struct CompareArguments {
  std::vector<std::string> models;
  ModelArguments common;
  MetricArguments metrics;
  std::string out;
  int64_t samples = 8;
  int enlarge = 1;
  bool spread = false, columns = false;
};

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  for (const auto& part : fs::path(path).lexically_normal()) {
    if (!part.empty()) parts.push_back(part.string());
  }
  return parts;
}

/// Removes the leading parts that all paths share; at least one part of each path is kept.
void drop_common_parts(std::vector<std::vector<std::string>>& paths) {
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
  for (const auto& model : models) paths.push_back(parts_of(model));
  for (int side = 0; side < 2; ++side) {
    drop_common_parts(paths);
    for (auto& path : paths) std::reverse(path.begin(), path.end());
  }
  std::vector<std::string> titles;
  for (const auto& parts : paths) {
    fs::path title;
    for (const auto& part : parts) title /= part;
    titles.push_back(title.string());
  }
  return titles;
}

/// Checks before any evaluation that all models can be loaded and use images of one size.
void check_models(const std::vector<std::string>& models) {
  int64_t size = 0;
  for (const auto& model : models) {
    const auto own = load_model(model).config.data.size;
    if (size == 0) size = own;
    if (own == size) continue;
    throw UserError("{} takes images of {} pixels, {} of {}; compare models of one image size",
                    models[0], size, model, own);
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

/// Numbers of the images in the picture: the first, or evenly spread ones.
std::set<int64_t> wanted_images(const CompareArguments& arguments, int64_t count) {
  const int64_t most = std::min(arguments.samples, count);
  std::set<int64_t> wanted;
  for (int64_t i = 0; i < most; ++i) {
    wanted.insert(arguments.spread ? (2 * i + 1) * count / (2 * most) : i);
  }
  return wanted;
}

struct Compared {
  std::string file;
  MetricColumn column;
  Samples samples;
};

Compared compare_one(const CompareArguments& arguments, size_t number, const std::string& title,
                     const MetricChoice& choice) {
  auto model = arguments.common;
  model.model = arguments.models[number];
  ModelOnData opened(model);
  Compared result{opened.session.file().string(), {title, {}}, {}};
  const auto wanted = wanted_images(arguments, opened.source->size());
  const auto keep = [&](const EvalBatch& batch, const std::vector<int64_t>& indices) {
    result.samples.add(batch, indices, wanted);
  };
  const auto own = opened.session.codes() > 0 ? choice : without_tokens(choice);
  result.column.values = measure(opened.session, {model.data.text(), opened.source, opened.options},
                                 own, {.title = title, .on_batch = keep});
  return result;
}

nlohmann::ordered_json to_json(const CompareArguments& arguments, const MetricChoice& choice,
                               const std::vector<Compared>& results) {
  nlohmann::ordered_json json = {{"data", arguments.common.data.text()},
                                 {"conventions", describe_choice(choice)}};
  add_origins(json, arguments.metrics, choice);
  for (const auto& result : results) {
    nlohmann::ordered_json one = {{"name", result.column.title}, {"model", result.file}};
    add_figures(one, result.column.values);
    json["models"].push_back(one);
  }
  return json;
}

/// Columns in the place of rows.
std::vector<std::vector<Image>> turned(const std::vector<std::vector<Image>>& rows) {
  std::vector<std::vector<Image>> columns(rows.front().size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) columns[i].push_back(row[i]);
  }
  return columns;
}

void write_grid(const CompareArguments& arguments, const std::vector<Compared>& results) {
  const auto& out = arguments.out;
  if (out.empty()) return;
  std::vector<std::vector<Image>> rows = {results.front().samples.images};
  std::string names = "images";
  for (const auto& result : results) {
    rows.push_back(result.samples.reconstructions);
    names += ", " + result.column.title;
  }
  if (arguments.columns) rows = turned(rows);
  write_image(out, enlarge(make_grid(rows), arguments.enlarge));
  fmt::print("{}, {}: {}\n", out, arguments.columns ? "columns from the left" : "rows from the top",
             names);
}

void run_compare(const CompareArguments& arguments) {
  const auto choice = choose_metrics(arguments.metrics, Measured::images_and_tokens);
  require_distinct({{"--out", arguments.out}, {"--json", arguments.metrics.json}});
  for (const auto& source : arguments.common.data.items) {
    require_distinct({{"--data", source}, {"--out", arguments.out}});
  }
  JsonOutput output(arguments.metrics.json);
  if (!arguments.out.empty() && !is_image_name(arguments.out)) {
    throw UserError("--out {}: end the name in .png or .jpg", arguments.out);
  }
  require_replaceable("--out", arguments.out, FileKind::picture);
  require_no_image("--out", arguments.out, arguments.common.data);
  require_writable(arguments.out);
  check_models(arguments.models);
  const auto titles = titles_of(arguments.models);
  std::vector<Compared> results;
  std::vector<MetricColumn> columns;
  for (size_t i = 0; i < titles.size(); ++i) {
    results.push_back(compare_one(arguments, i, titles[i], choice));
    columns.push_back(results.back().column);
  }
  fmt::print("on {}, as {}\n{}", arguments.common.data.text(), choice.conventions.name,
             metric_table(columns, choice.conventions));
  print_origins(arguments.metrics, choice);
  write_grid(arguments, results);
  output.write(to_json(arguments, choice, results));
}

}  // namespace

void declare_compare(CLI::App& app) {
  const auto arguments = std::make_shared<CompareArguments>();
  app.add_option("RUNS_OR_CHECKPOINTS", arguments->models,
                 "two or more: runs' folders, checkpoint folders or model.safetensors files")
      ->required()
      ->expected(-2);  // two or more
  declare_data_arguments(app, arguments->common);
  declare_metric_arguments(app, arguments->metrics, Measured::images_and_tokens);
  declare_statistics_argument(app, arguments->metrics);
  app.add_option("--out", arguments->out,
                 "FILE.png or FILE.jpg: images on top, then a row of reconstructions per model");
  app.add_option("--samples", arguments->samples, "images in that picture")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--spread", arguments->spread,
               "images in that picture evenly spread over the data, not its first");
  app.add_flag("--columns", arguments->columns, "a column per model in that picture, not a row");
  app.add_option("--enlarge", arguments->enlarge,
                 "times that the picture is enlarged, pixel by pixel")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  app.callback([arguments] { run_compare(*arguments); });
}

}  // namespace nsvq
