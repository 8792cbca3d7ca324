#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "nsvq/cli/command.h"
#include "nsvq/cli/model_arguments.h"
#include "nsvq/cli/output_name.h"
#include "nsvq/core/error.h"
#include "nsvq/tokenizer/export_model.h"
#include "nsvq/train/run_folder.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

/// Throws UserError for a file among the checkpoints of a run, which one of them may consist of.
void refuse_checkpoints(const fs::path& out) {
  std::error_code error;
  auto folder = fs::weakly_canonical(fs::absolute(out, error).parent_path(), error);
  for (; folder.has_relative_path(); folder = folder.parent_path()) {
    if (folder.filename() != "checkpoints" || !holds_run(folder.parent_path())) continue;
    throw UserError("--out {}: among the checkpoints of a run; choose another folder",
                    out.string());
  }
}

void run_export(const fs::path& model, const fs::path& out) {
  require_replaceable("--out", out, FileKind::safetensors);
  require_replaceable("--out", fs::path(out).replace_extension(".json"),
                      FileKind::exported_settings);
  refuse_checkpoints(out);
  require_writable(out);
  const auto beside = export_model(load_model(model), out);
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
