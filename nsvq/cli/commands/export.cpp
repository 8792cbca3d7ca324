#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <vector>

#include "nsvq/cli/arguments/model_arguments.h"
#include "nsvq/cli/arguments/output_name.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/tokenizer/export_model.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

void run_export(const fs::path& model, const fs::path& out, bool force) {
  std::vector<NamedFile> outputs;
  for (const auto& file : exported_files(out)) outputs.push_back({"--out", file});
  check_output_files(outputs, force);
  const auto loaded = load_model(model);
  require_distinct({{"MODEL", loaded.file}, {"--out", out}});
  export_model(loaded, out);
  for (const auto& file : exported_files(out)) fmt::print("{}\n", file.string());
}

}  // namespace

void declare_export(CLI::App& app) {
  struct Arguments {
    NamedModel model;
    std::string out;
    bool force = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  declare_model(app, arguments->model);
  app.add_option("--out", arguments->out,
                 "FILE.safetensors for the weights; beside it FILE.json has the configuration, and "
                 "load_FILE.py loads both in PyTorch")
      ->required()
      ->type_name("FILE");
  declare_force(app, arguments->force);
  app.callback(
      [arguments] { run_export(arguments->model.path(), arguments->out, arguments->force); });
}

}  // namespace nsvq
