#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "nsvq/cli/arguments/model_arguments.h"
#include "nsvq/cli/arguments/output_name.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/tokenizer/model_file.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

void run_export(const fs::path& model, const fs::path& out, bool force) {
  const auto settings = fs::path(out).replace_extension(".json");
  check_output_files({{"--out", out}, {"--out", settings}}, force);
  const auto loaded = load_model(model);
  require_distinct({{"MODEL", loaded.file}, {"--out", out}});
  const auto beside = export_model(loaded, out);
  fmt::print("{}\n{}\n", out.string(), beside.string());
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
                 "FILE.safetensors for the weights; FILE.json beside it gets the configuration")
      ->required()
      ->type_name("FILE");
  declare_force(app, arguments->force);
  app.callback(
      [arguments] { run_export(arguments->model.path(), arguments->out, arguments->force); });
}

}  // namespace nsvq
