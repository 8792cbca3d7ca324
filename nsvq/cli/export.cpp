#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "nsvq/cli/command.h"
#include "nsvq/core/error.h"
#include "nsvq/core/version.h"
#include "nsvq/io/file.h"
#include "nsvq/tokenizer/model_file.h"
#include "nsvq/tokenizer/recipe.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

/// All settings as JSON, nested by section as in a recipe.
nlohmann::ordered_json to_json(Config config) {
  auto json = nlohmann::ordered_json::object();
  for (const auto& option : tokenizer_options(config).rows) {
    auto* place = &json;
    for (size_t start = 0; start != std::string::npos;) {
      const size_t dot = option.key.find('.', start);
      place = &(*place)[option.key.substr(start, dot - start)];
      start = dot == std::string::npos ? dot : dot + 1;
    }
    std::visit([place](const auto* field) { *place = *field; }, option.field);
  }
  return json;
}

void run_export(const std::string& path, const fs::path& out) {
  if (out.extension() != ".safetensors") {
    throw UserError("--out: {} does not end in .safetensors", out.string());
  }
  const auto model = load_model(path);
  const auto hash = model_sha256(model.tokenizer);
  auto json = to_json(model.config);
  json["nsvq"] = {{"version", kVersion}, {"sha256", hash}, {"stride", model.config.model.stride()}};
  write_model(out, named_tensors(*model.tokenizer), model.config, {{"nsvq.sha256", hash}});
  const auto beside = fs::path(out).replace_extension(".json");
  write_text(beside, json.dump(1) + "\n");
  fmt::print("{}\n{}\n", out.string(), beside.string());
}

}  // namespace

void declare_export(CLI::App& app) {
  struct Arguments {
    std::string model, out;
  };
  const auto arguments = std::make_shared<Arguments>();
  app.add_option("RUN_OR_CHECKPOINT", arguments->model,
                 "a run's folder, a checkpoint folder or a model.safetensors")
      ->required();
  app.add_option("--out", arguments->out,
                 "FILE.safetensors for the weights; FILE.json beside it gets the configuration")
      ->required();
  app.callback([arguments] { run_export(arguments->model, arguments->out); });
}

}  // namespace nsvq
