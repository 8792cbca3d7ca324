#include <CLI/CLI.hpp>

#include "nsvq/cli/arguments/output_name.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/tokenizer/foreign_weights.h"
#include "nsvq/tokenizer/import_weights.h"
#include "nsvq/tokenizer/model_file.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

struct ImportArguments {
  std::string file, recipe, out;
  std::vector<std::string> overrides;
  bool averaged = false, force = false;
};

/// Whose weights they are decides before anything else is asked for.
void check_importable(const ImportArguments& arguments) {
  const auto weights = read_foreign_shapes(arguments.file);
  const auto* layout = recognise_layout(weights.shapes);
  if (layout && !layout->importable) {
    throw UserError("{}: the layout of {}", arguments.file, describe_layout(*layout));
  }
  if (arguments.recipe.empty()) {
    throw UserError("--recipe is required: a YAML file that describes the network of {}",
                    arguments.file);
  }
  if (arguments.out.empty()) throw UserError("--out is required");
}

void run_import(const ImportArguments& arguments) {
  check_importable(arguments);
  const bool file = arguments.out.ends_with(".safetensors");
  if (!file) check_output_folder(arguments.out);
  fs::path out = arguments.out;
  if (!file) out /= kModelFile;
  check_output_files({{"--out", out}}, arguments.force, {{"FILE", arguments.file}});
  const auto config = load_config(arguments.recipe, arguments.overrides);
  const auto imported =
      import_weights(read_foreign_tensors(arguments.file), arguments.averaged, arguments.file);
  Tokenizer model(config);
  check_all_placed(named_tensors(*model), imported.tensors, arguments.file);
  load_tensors(*model, imported.tensors, arguments.file);

  write_model(out, named_tensors(*model), config,
              {{"nsvq.imported", printable(fs::path(arguments.file).filename().string())}});
  fmt::print("{}: {}\n", out.string(), count_of(imported.tensors.size(), "tensor"));
  for (const auto& [name, count] : imported.left_out) {
    fmt::print("skipped {} of {}.*{}\n", count_of(count, "tensor"), name,
               name == "model_ema" ? (arguments.averaged ? " (weights are taken from it)"
                                                         : " (--ema takes the weights from it)")
                                   : "");
  }
}

}  // namespace

void declare_import(CLI::App& app) {
  const auto arguments = std::make_shared<ImportArguments>();
  app.add_option(
         "FILE", arguments->file,
         "safetensors or PyTorch file (.ckpt, .pt, .pth, .bin) with the backbone of SimVQ, under "
         "its names; of other programs' files the first line says whose they are")
      ->required();
  app.add_option("SETTINGS", arguments->overrides,
                 "key=value ..., overriding the recipe, such as model.width=128");
  app.add_option("--recipe", arguments->recipe, "recipe (YAML) that describes the model, required")
      ->type_name("FILE");
  app.add_option("--out", arguments->out,
                 "FILE.safetensors, or a folder for model.safetensors, required")
      ->type_name("PATH");
  declare_force(app, arguments->force);
  app.add_flag("--ema", arguments->averaged,
               "take the moving average of the weights (model_ema.*) instead of the last ones");
  app.callback([arguments] { run_import(*arguments); });
}

}  // namespace nsvq
