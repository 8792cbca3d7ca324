#include <CLI/CLI.hpp>

#include "nsvq/cli/arguments/output_name.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/text.h"
#include "nsvq/generation/import_generator.h"
#include "nsvq/generation/layouts/layout.h"
#include "nsvq/io/files/file.h"
#include "nsvq/nn/named_tensors.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/tokenizer/exchange/foreign_weights.h"
#include "nsvq/tokenizer/exchange/import_weights.h"
#include "nsvq/tokenizer/model_file.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

struct ImportArguments {
  std::string file, second, recipe, out;
  std::vector<std::string> overrides;
  int64_t size = 0;
  bool last = false, averaged = false, force = false;
};

/// Where the model goes: FILE-nsvq.safetensors in the current folder by default.
fs::path output_for(const ImportArguments& arguments) {
  if (!arguments.out.empty()) {
    if (arguments.out.ends_with(".safetensors")) return arguments.out;
    check_output_folder(arguments.out);
    return fs::path(arguments.out) / kModelFile;
  }
  const auto given = fs::absolute(arguments.file).lexically_normal();
  const auto file = given.has_filename() ? given : given.parent_path();
  return file.stem().string() + "-nsvq.safetensors";
}

/// Takes the words that are no key=value from the overrides: a second file, of which there is one
/// at most.
void take_second(ImportArguments& arguments) {
  const auto is_file = [](const auto& word) { return word.find('=') == std::string::npos; };
  for (const auto& word : arguments.overrides) {
    if (!is_file(word)) continue;
    if (!arguments.second.empty()) {
      throw UserError("nsvq import: {} and {}: more files than an encoder's and a decoder's",
                      arguments.second, word);
    }
    if (!path_exists(word)) throw UserError("{}: neither a file nor key=value", word);
    arguments.second = word;
  }
  std::erase_if(arguments.overrides, is_file);
}

/// Another command takes generators of tokens.
void refuse_generators(const ImportArguments& arguments) {
  if (!arguments.recipe.empty()) return;
  const auto file = weights_files(arguments.file).front();
  if (const auto* layout = generator_layout_of(file)) {
    throw UserError("{}: {}", file.string(), describe_generator(*layout));
  }
}

void run_import(ImportArguments arguments) {
  take_second(arguments);
  refuse_generators(arguments);
  if (arguments.averaged) {
    if (arguments.last) throw UserError("--ema and --last: give one of them");
    log("nsvq import: the moving average is taken without --ema; --last takes the last weights");
  }
  const auto out = output_for(arguments);
  check_output_files({{"--out", out}}, arguments.force,
                     {{"FILE", arguments.file}, {"FILE", arguments.second}});
  auto overrides = arguments.overrides;
  if (arguments.size > 0) overrides.push_back(fmt::format("data.size={}", arguments.size));
  const auto made = import_model(
      {arguments.file, arguments.recipe, std::move(overrides), arguments.last, arguments.second});
  const auto tensors = named_tensors(*made.tokenizer);
  write_model(out, tensors, made.config,
              {{"nsvq.imported", printable(fs::path(arguments.file).filename().string())}});
  for (const auto& note : made.notes) fmt::print("{}\n", printable(note));
  fmt::print("{}: {}\n", out.string(), count_of(tensors.size(), "tensor"));
}

}  // namespace

void declare_import(CLI::App& app) {
  const auto arguments = std::make_shared<ImportArguments>();
  app.add_option(
         "FILE", arguments->file,
         "safetensors or PyTorch file (.ckpt, .pt, .pth, .bin, .jit) of another program's "
         "tokenizer; of taming-transformers, LlamaGen, IBQ, VAR, SimVQ, Open-MAGVIT2, MaskGIT's "
         "VQGAN, Chameleon, Cosmos (`encoder.jit decoder.jit`) or diffusers' VQModel, whose folder "
         "will "
         "do too")
      ->required();
  app.add_option("SETTINGS", arguments->overrides,
                 "key=value ..., in place of what the tensors tell");
  app.add_option("--size", arguments->size,
                 "side of the images in pixels; data.size, by default that of its training")
      ->type_name("N")
      ->check(CLI::Range(int64_t{8}, int64_t{4096}));
  app.add_option("--out", arguments->out,
                 "FILE.safetensors, or a folder for model.safetensors; by default "
                 "FILE-nsvq.safetensors in the current folder")
      ->type_name("PATH");
  app.add_option("--recipe", arguments->recipe,
                 "recipe (YAML) that describes the model, in place of names and shapes")
      ->type_name("FILE");
  declare_force(app, arguments->force);
  app.add_flag("--last", arguments->last, "take the last weights, not their moving average");
  app.add_flag("--ema", arguments->averaged, "old spelling of the default: the moving average")
      ->group(kRare);
  app.callback([arguments] { run_import(*arguments); });
}

}  // namespace nsvq
