#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "nsvq/cli/arguments/model_arguments.h"
#include "nsvq/cli/arguments/output_name.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/tokenizer/export_model.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

void run_export(const fs::path& model, const fs::path& out) {
  require_replaceable("--out", out, FileKind::model);
  require_replaceable("--out", fs::path(out).replace_extension(".json"),
                      FileKind::exported_settings);
  require_writable(out);
  const auto loaded = load_model(model);
  require_distinct({{"RUN_OR_CHECKPOINT", loaded.file}, {"--out", out}});
  const auto beside = export_model(loaded, out);
  fmt::print("{}\n{}\n", out.string(), beside.string());
}

}  // namespace

void declare_export(CLI::App& app) {
  struct Arguments {
    std::string model, out;
    bool best = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  app.add_option("RUN_OR_CHECKPOINT", arguments->model,
                 "a run's folder, a checkpoint folder or a model.safetensors")
      ->required();
  declare_best(app, arguments->best);
  app.add_option("--out", arguments->out,
                 "FILE.safetensors for the weights; FILE.json beside it gets the configuration")
      ->required();
  app.callback(
      [arguments] { run_export(model_path(arguments->model, arguments->best), arguments->out); });
}

}  // namespace nsvq
