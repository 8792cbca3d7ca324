#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <vector>

#include "nsvq/cli/arguments/model_arguments.h"
#include "nsvq/cli/arguments/output_name.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/core/error.h"
#include "nsvq/tokenizer/exchange/export_layout.h"
#include "nsvq/tokenizer/exchange/export_model.h"
#include "nsvq/tokenizer/exchange/model_card.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

constexpr auto kHub = "huggingface";

struct ExportArguments {
  NamedModel model;
  std::string out, layout, figures;
  bool force = false;
};

std::vector<fs::path> files_for(const ExportArguments& arguments) {
  if (arguments.layout.empty()) return exported_files(arguments.out);
  return arguments.layout == kHub ? files_of_card(arguments.out)
                                  : files_in_layout(arguments.layout, arguments.out);
}

void write_export(const LoadedModel& model, const ExportArguments& arguments) {
  if (arguments.layout.empty()) return export_model(model, arguments.out);
  if (arguments.layout == kHub) return write_card(model, arguments.out, arguments.figures);
  write_in_layout(model, arguments.layout, arguments.out);
}

void run_export(const ExportArguments& arguments) {
  if (!arguments.figures.empty() && arguments.layout != kHub) {
    throw UserError("--eval: figures are for the model card of --as {}", kHub);
  }
  const auto files = files_for(arguments);
  std::vector<NamedFile> outputs;
  for (const auto& file : files) outputs.push_back({"--out", file});
  check_output_files(outputs, arguments.force, {{"--eval", arguments.figures}});
  const auto loaded = load_model(arguments.model.path());
  for (const auto& file : files) require_distinct({{"MODEL", loaded.file}, {"--out", file}});
  write_export(loaded, arguments);
  for (const auto& file : files) fmt::print("{}\n", file.string());
}

}  // namespace

void declare_export(CLI::App& app) {
  const auto arguments = std::make_shared<ExportArguments>();
  declare_model(app, arguments->model);
  app.add_option("--out", arguments->out,
                 "FILE.safetensors for the weights, with FILE.json and load_FILE.py beside it; for "
                 "--as diffusers and huggingface a folder")
      ->required()
      ->type_name("PATH");
  auto names = layouts_to_write();
  names.emplace_back(kHub);
  app.add_option("--as", arguments->layout,
                 fmt::format("{}: names and shapes of that program, or a folder with a model card",
                             fmt::join(names, ", ")))
      ->type_name("NAME")
      ->check(CLI::IsMember(names));
  app.add_option("--eval", arguments->figures,
                 "FILE.json of `nsvq eval --json`: its figures go into the model card")
      ->type_name("FILE");
  declare_force(app, arguments->force);
  app.callback([arguments] { run_export(*arguments); });
}

}  // namespace nsvq
