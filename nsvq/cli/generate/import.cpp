#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/cli/arguments/output_name.h"
#include "nsvq/cli/generate/generate.h"
#include "nsvq/core/text.h"
#include "nsvq/generation/import_generator.h"
#include "nsvq/tokenizer/frozen_tokenizer.h"

namespace nsvq {

namespace {

struct GenerateImportArguments {
  GeneratorImport request;
  std::string file, tokenizer, out;
};

void run_generate_import(const GenerateImportArguments& arguments) {
  check_output_folder(arguments.out);
  auto request = arguments.request;
  request.file = arguments.file;
  std::optional<TokenCodec> codec;
  if (!arguments.tokenizer.empty()) {
    codec.emplace(load_frozen_tokenizer(arguments.tokenizer, "--tokenizer"), at::kCPU);
  }
  const auto made = import_generator(request, codec ? &*codec : nullptr);
  export_generator(made.generator, codec ? &codec->model() : nullptr, arguments.out);
  for (const auto& note : made.notes) fmt::print("{}\n", printable(note));
  fmt::print("{}\n", arguments.out);
}

}  // namespace

void declare_generate_import(CLI::App& app) {
  const auto arguments = std::make_shared<GenerateImportArguments>();
  app.add_option("FILE", arguments->file,
                 "safetensors or PyTorch file (.pt, .pth, .bin) of LlamaGen's, Halton-MaskGIT's or "
                 "RAR's generator")
      ->required();
  app.add_option("SETTINGS", arguments->request.overrides,
                 "key=value ..., in place of what the tensors tell");
  app.add_option("--tokenizer", arguments->tokenizer,
                 "the tokenizer of its tokens, such as `nsvq import` made; without one it samples "
                 "tokens alone")
      ->type_name("MODEL");
  app.add_option("--size", arguments->request.size,
                 "side of its images in pixels, which LlamaGen's files do not tell (default: 256)")
      ->type_name("N")
      ->check(CLI::Range(int64_t{8}, int64_t{4096}));
  app.add_flag("--last", arguments->request.last,
               "take the last weights, not their moving average");
  app.add_option("--out", arguments->out,
                 "a new folder for the generator, its tokenizer and their settings")
      ->required()
      ->type_name("DIR");
  app.callback([arguments] { run_generate_import(*arguments); });
}

}  // namespace nsvq
