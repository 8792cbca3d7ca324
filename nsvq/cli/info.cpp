// `nsvq info`: what a run, a checkpoint, a model file or a folder of tokens holds. Text and JSON
// are made from the same object.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "nsvq/cli/command.h"
#include "nsvq/cli/json_output.h"
#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/printable.h"
#include "nsvq/core/text.h"
#include "nsvq/io/contents_hash.h"
#include "nsvq/io/token_manifest.h"
#include "nsvq/io/token_shard.h"
#include "nsvq/io/token_work.h"
#include "nsvq/io/weights.h"
#include "nsvq/metrics/metric_choice.h"
#include "nsvq/report/metric_table.h"
#include "nsvq/tokenizer/export_model.h"
#include "nsvq/tokenizer/model_file.h"
#include "nsvq/tokenizer/open_model.h"
#include "nsvq/tokenizer/recipe.h"
#include "nsvq/train/checkpoint.h"

namespace nsvq {

namespace fs = std::filesystem;
using InfoJson = nlohmann::ordered_json;

namespace {

/// A value as a line shows it: lists as 8x8, all else as it is.
std::string shown_value(const InfoJson& value) {
  if (value.is_string()) return printable(value.get<std::string>());
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (!value.is_array()) return value.dump();
  std::string text;
  for (const auto& entry : value) text += (text.empty() ? "" : "x") + entry.dump();
  return text;
}

/// A line for each value that is no object.
void print_values(const InfoJson& json) {
  for (const auto& [key, value] : json.items()) {
    if (!value.is_object()) fmt::print("{:12} {}\n", key, shown_value(value));
  }
}

/// The settings without those of other quantizers.
OptionTable settings_in_use(Config& config) {
  auto table = tokenizer_options(config);
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

/// What the training state beside a model says. A model alone has none.
void add_run_state(InfoJson& json, const fs::path& checkpoint) {
  std::error_code ignored;
  if (!fs::exists(checkpoint / "state.json", ignored)) return;
  try {
    const auto state = load_run_state(checkpoint);
    json["finished"] = state.finished;
    auto figures = InfoJson::object();
    add_figures(figures, state.evaluation);
    if (!figures.empty()) json["figures"] = figures;
  } catch (const UserError& error) {
    log("{}; the model beside it is whole", error.what());
  }
}

void add_parameters(InfoJson& json, const TensorMap& tensors) {
  for (const std::string part : {"encoder", "quantizer", "decoder"}) {
    int64_t numbers = 0;
    for (const auto& [name, tensor] : tensors) {
      if (name.starts_with(part + ".")) numbers += tensor.numel();
    }
    json["parameters"][part] = numbers;
  }
}

/// What the configuration says of images and tokens.
void add_sizes(InfoJson& json, const Config& config) {
  const int64_t size = config.data.size, stride = config.model.stride();
  json["quantizer"] = config.quantizer.type;
  json["codes"] = make_quantizer(config.quantizer, config.model.latent_dim)->codes();
  json["image"] = {size, size};
  json["stride"] = stride;
  json["grid"] = {size / stride, size / stride};
  json["latent_dim"] = config.model.latent_dim;
}

void show_model(const std::string& path, JsonOutput& output) {
  const auto file = open_model_file(path);
  const auto& metadata = file.contents.metadata;
  InfoJson json = {{"file", file.path.string()}};
  for (const std::string name : {"format", "version", "step", "epoch", "imported"}) {
    const auto value = metadata.find("nsvq." + name);
    if (value == metadata.end()) continue;
    const auto number = parse_decimal(value->second);
    json[name] = number ? InfoJson(*number) : InfoJson(value->second);
  }
  add_run_state(json, file.path.parent_path());
  json["sha256"] = tensors_sha256(file.contents.tensors);
  json["checked"] = has_contents_hash(metadata);
  json["tensors"] = file.contents.tensors.size();
  add_parameters(json, file.contents.tensors);
  std::string settings;
  if (const auto text = metadata.find(kModelConfigKey); text != metadata.end()) {
    auto config = parse_config(text->second, file.path.string());
    const auto budget = budget_of(file);
    add_sizes(json, config);
    const auto table = settings_in_use(config);
    settings = table.to_yaml();
    json["settings"] = settings_to_json(table);
  }
  print_values(json);
  for (const auto& [part, count] : json["parameters"].items()) {
    fmt::print("{:12} {} parameters\n", part, count.get<int64_t>());
  }
  if (json.contains("figures")) {
    const auto figures = json["figures"].get<std::map<std::string, double>>();
    fmt::print("\nlast evaluation\n{}", metric_table(figures));
  }
  fmt::print("\n{}", settings);
  output.write(json);
}

void show_tokens(const fs::path& folder, JsonOutput& output) {
  const auto manifest = read_token_progress(folder);
  const auto& settings = manifest.settings;
  int64_t images = 0, broken = 0;
  for (const auto& shard : manifest.shards) {
    images += shard.images;
    broken += std::ssize(shard.broken);
  }
  const InfoJson json = {{"tokens", folder.string()},
                         {"complete", manifest.complete},
                         {"images", images},
                         {"broken", broken},
                         {"shards", manifest.shards.size()},
                         {"codes", settings.codes},
                         {"grid", {settings.grid_height, settings.grid_width}},
                         {"image", {settings.image_height, settings.image_width}},
                         {"dtype", token_type_name(settings.codes)},
                         {"model", settings.model_sha256},
                         {"data", manifest.source},
                         {"shard_size", settings.shard_size},
                         {"batch_size", settings.batch_size}};
  print_values(json);
  output.write(json);
}

/// A checkpoint has a manifest too, and a model beside it.
bool is_token_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path / kTokenManifest, ignored) &&
         !fs::exists(path / "model.safetensors", ignored);
}

}  // namespace

void declare_info(CLI::App& app) {
  struct Arguments {
    std::string path, json;
  };
  const auto arguments = std::make_shared<Arguments>();
  app.add_option("PATH", arguments->path,
                 "a run's folder, a checkpoint folder, a model.safetensors or a folder of tokens")
      ->required();
  declare_json_argument(app, arguments->json);
  app.callback([arguments] {
    JsonOutput output(arguments->json);
    if (is_token_folder(arguments->path)) return show_tokens(arguments->path, output);
    show_model(arguments->path, output);
  });
}

}  // namespace nsvq
