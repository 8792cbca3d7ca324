// `nsvq info`: what a run, a checkpoint, a model file, a folder of tokens or latents, a shard of
// tokens or a file of another program's weights holds. Text and JSON are made from one object.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ranges>

#include "nsvq/cli/output/json_output.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/text.h"
#include "nsvq/diffusion/diffusion_model.h"
#include "nsvq/generation/generator_model.h"
#include "nsvq/generation/import_generator.h"
#include "nsvq/generation/layouts/layout.h"
#include "nsvq/io/formats/contents_hash.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/io/formats/pytorch/pytorch_file.h"
#include "nsvq/io/formats/safetensors_header.h"
#include "nsvq/metrics/metric_set.h"
#include "nsvq/metrics/metric_table.h"
#include "nsvq/nn/weights.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/runs/checkpoint.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/tokenizer/exchange/foreign_weights.h"
#include "nsvq/tokenizer/model_file.h"
#include "nsvq/tokenizer/open_model.h"

namespace nsvq {

namespace fs = std::filesystem;
namespace {

/// The settings without those of other quantizers.
OptionTable settings_in_use(TokenizerConfig& config) {
  auto table = option_table(config);
  const auto own = quantizer_kind(config.quantizer.type).options;
  std::vector<std::string> foreign;
  for (const auto& kind : quantizer_kinds()) {
    if (!kind.options || kind.options == own) continue;
    for (const auto& row : kind.options(config.quantizer)) foreign.push_back(row.key);
  }
  std::erase_if(table.rows, [&](const Option& row) {
    return std::find(foreign.begin(), foreign.end(), row.key) != foreign.end();
  });
  return table;
}

/// Adds the training state beside a model, if there is one.
void add_run_state(Json& json, const fs::path& checkpoint) {
  std::error_code ignored;
  if (!fs::exists(checkpoint / kStateFile, ignored)) return;
  try {
    const auto state = load_run_state(checkpoint);
    json["finished"] = state.finished;
    auto figures = Json::object();
    add_figures(figures, state.evaluation);
    // A generating model has a loss alone.
    const auto loss = state.evaluation.find("loss");
    if (loss != state.evaluation.end()) figures["loss"] = loss->second;
    if (!figures.empty()) json["figures"] = figures;
  } catch (const UserError& error) {
    log("{}; the model beside it is intact", error.what());
  }
}

void add_parameters(Json& json, const TensorMap& tensors, const std::vector<std::string>& modules) {
  for (const auto& module : modules) {
    int64_t numbers = 0;
    for (const auto& [name, tensor] : tensors) {
      if (name.starts_with(module + ".")) numbers += tensor.numel();
    }
    json["parameters"][module] = numbers;
  }
}

/// Adds the sizes of images and tokens.
void add_sizes(Json& json, const TokenizerConfig& config) {
  const int64_t size = config.data.size, stride = config.model.stride();
  json["quantizer"] = config.quantizer.type;
  const auto quantizer = make_quantizer(config.quantizer, config.model.latent_dim);
  json["codes"] = quantizer->codes();
  json["image"] = {size, size};
  json["stride"] = stride;
  json["grid"] = {size / stride, size / stride};
  const auto grids = quantizer->grids(size / stride, size / stride);
  if (grids.size() > 1) json["tokens_of_image"] = tokens_in(grids);
  json["latent_dim"] = config.model.latent_dim;
}

void print_parameters(const Json& json) {
  for (const auto& [module, count] : json["parameters"].items()) {
    fmt::print("{:12} {} parameters\n", printable(module), count.get<int64_t>());
  }
}

/// Whether a tokenizer does not need a tensor of this name.
bool is_dropped(const Layout& layout, const std::string& name) {
  return std::ranges::any_of(layout.dropped,
                             [&](const auto& pattern) { return fits(pattern, name); });
}

/// Tensors of files that are not nsvq's, and whose layout theirs is.
void show_foreign(const std::vector<fs::path>& files, JsonOutput& output) {
  const auto& file = files.front();
  auto weights = read_foreign_shapes(file);
  for (const auto& more : files | std::views::drop(1)) {
    weights.shapes.merge(read_foreign_shapes(more).shapes);
  }
  const auto names = tokenizer_names(weights.shapes);
  const auto* layout = recognise_layout(names.shapes);
  const auto* generator = layout ? nullptr : generator_layout_of(file);
  Json json = {{"file", file.string()}};
  if (!weights.part.empty()) json["part"] = weights.part;
  if (!weights.average.empty()) json["average"] = weights.average;
  json["layout"] = layout ? layout->name : generator ? generator->name : "unknown";
  json["importable"] = layout ? layout->refused.empty() : generator && generator->refused.empty();
  json["tensors"] = weights.shapes.size();
  json["parameters"] = Json::object();
  for (const auto& [name, shape] : names.shapes) {
    if (layout && is_dropped(*layout, name)) continue;
    int64_t numbers = 1;
    for (const auto size : shape) numbers *= size;
    auto& sum = json["parameters"][name.substr(0, name.find('.'))];
    sum = sum.is_null() ? numbers : sum.get<int64_t>() + numbers;
    if (name == "quantize.embedding.weight" && shape.size() == 2) {
      json["codes"] = shape[0];
      json["latent_dim"] = shape[1];
    }
  }
  print_values(json);
  print_parameters(json);
  fmt::print("no model of nsvq's; {}\n",
             layout      ? "the layout of " + describe_layout(*layout)
             : generator ? "the layout of " + describe_generator(*generator)
                         : "its layout is not known: " + printable(nearest_layout(names.shapes)));
  output.write(json);
}

/// Whether a named file holds tensors that are no model of nsvq's.
bool is_foreign(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;
  if (is_pytorch_file(path)) return true;
  try {
    const auto metadata = read_safetensors_header(path).metadata;
    return std::ranges::none_of(metadata,
                                [](const auto& row) { return row.first.starts_with("nsvq."); });
  } catch (const UserError&) {
    return false;  // opening it as a model says what is wrong
  }
}

/// The files of another program that a path names, a file or a folder; none for other paths.
std::vector<fs::path> foreign_files(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    return is_foreign(path) ? std::vector{path} : std::vector<fs::path>();
  }
  const auto files = list_checkpoints(path).empty() ? usual_weights(path) : std::vector<fs::path>();
  return !files.empty() && is_foreign(files.front()) ? files : std::vector<fs::path>();
}

/// Adds what a generator of tokens is; returns its settings.
std::string add_generator(Json& json, const ModelFile& file) {
  auto [config, grid, tokenizer] = generator_metadata(file.contents, file.path.string());
  int64_t numbers = 0;
  for (const auto& [name, tensor] : file.contents.tensors) numbers += tensor.numel();
  json["parameters"] = {{"generator", numbers}};
  json["family"] = config.generator.family;
  json["grid"] = {grid.height, grid.width};
  json["codes"] = grid.codes;
  json["tokenizer"] = tokenizer.path;
  json["tokenizer_sha256"] = tokenizer.sha256;
  json["settings"] = settings_to_json(option_table(config));
  return to_yaml(config);
}

void show_model(const std::string& path, JsonOutput& output) {
  const auto file = open_model_file(path);
  const auto& metadata = file.contents.metadata;
  Json json = {{"file", file.path.string()}};
  for (const std::string name : {"format", "version", "step", "epoch", "imported"}) {
    const auto value = metadata.find("nsvq." + name);
    if (value == metadata.end()) continue;
    const auto number = parse_decimal(value->second);
    json[name] = number ? Json(*number) : Json(value->second);
  }
  add_run_state(json, file.path.parent_path());
  json["sha256"] = tensors_sha256(file.contents.tensors);
  json["checked"] = has_contents_hash(metadata);
  json["tensors"] = file.contents.tensors.size();
  const bool diffusion = is_diffusion(file.contents);
  const auto of_tokenizer = [](const auto& tensor) { return tensor.first.starts_with("encoder."); };
  const bool generator = is_generator(file.contents);
  if (!diffusion && !generator && std::ranges::none_of(file.contents.tensors, of_tokenizer)) {
    throw UserError("{}: neither a model nor a shard of tokens", file.path.string());
  }
  if (!generator) {
    add_parameters(json, file.contents.tensors,
                   diffusion ? std::vector<std::string>{"unet"}
                             : std::vector<std::string>{"encoder", "quantizer", "decoder"});
  }
  std::string settings;
  if (const auto text = metadata.find(kModelConfigKey); text != metadata.end()) {
    auto config = parse_config(text->second, file.path.string());
    const auto budget = budget_of(file);
    add_sizes(json, config);
    const auto table = settings_in_use(config);
    settings = table.to_yaml();
    json["settings"] = settings_to_json(table);
  }
  if (diffusion) {
    auto [config, tokenizer] = diffusion_metadata(file.contents, file.path.string());
    json["tokenizer"] = tokenizer.path;
    json["tokenizer_sha256"] = tokenizer.sha256;
    settings = to_yaml(config);
    json["settings"] = settings_to_json(option_table(config));
  }
  if (generator) settings = add_generator(json, file);
  print_values(json);
  print_parameters(json);
  if (json.contains("figures")) {
    const auto figures = json["figures"].get<std::map<std::string, double>>();
    fmt::print("\nlast evaluation\n{}", metric_table(figures));
  }
  fmt::print("\n{}", settings);
  output.write(json);
}

}  // namespace

void declare_info(CLI::App& app) {
  struct Arguments {
    std::string path;
    JsonArgument json;
  };
  const auto arguments = std::make_shared<Arguments>();
  app.add_option("PATH", arguments->path,
                 "a run's folder, a checkpoint, a model.safetensors, a folder of tokens or "
                 "latents, a shard of tokens, or another program's weights (safetensors, .ckpt, "
                 ".pt, .pth, .bin, .jit, or its folder)")
      ->required();
  declare_json_argument(app, arguments->json);
  app.callback([arguments] {
    JsonOutput output(arguments->json);
    if (show_tokens_or_latents(arguments->path, output)) return;
    if (const auto files = foreign_files(arguments->path); !files.empty()) {
      return show_foreign(files, output);
    }
    show_model(arguments->path, output);
  });
}

}  // namespace nsvq
