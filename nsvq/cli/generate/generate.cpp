// `nsvq generate`: its subcommands, with `config`, `eval` and `export` among them.

#include "nsvq/cli/generate/generate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "nsvq/cli/arguments/output_name.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/cli/sampling/evaluate_samples.h"
#include "nsvq/core/error.h"
#include "nsvq/generation/config.h"
#include "nsvq/generation/import_generator.h"
#include "nsvq/generation/layouts/layout.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/runs/config.h"

namespace nsvq {

namespace {

struct GenerateConfigArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  bool reference = false;
};

void run_generate_config(const GenerateConfigArguments& arguments) {
  if (arguments.reference) {
    GenerationConfig defaults;
    fmt::print("{}", option_table(defaults).reference());
    return;
  }
  if (arguments.recipe.empty()) {
    throw UserError("config: name a recipe, or ask for all keys with --reference");
  }
  fmt::print("{}", to_yaml(load_recipe_or_run<GenerationConfig>(
                       arguments.recipe, with_sections(arguments.overrides))));
}

void declare_generate_config(CLI::App& app) {
  const auto arguments = std::make_shared<GenerateConfigArguments>();
  app.add_option("CONFIG", arguments->recipe, "recipe (YAML), or a run's folder");
  app.add_option("SETTINGS", arguments->overrides, "key=value ..., overriding the recipe");
  app.add_flag("--reference", arguments->reference,
               "print every key with its type, default, range and meaning");
  app.callback([arguments] { run_generate_config(*arguments); });
}

struct GenerateEvalArguments {
  GenerateArguments sampling;
  EvaluationArguments evaluation;
};

void run_generate_eval(const GenerateEvalArguments& arguments) {
  work_on_ranks(arguments.sampling, [&](const Launch& launch, Group& group) {
    std::unique_ptr<GeneratorSession> session;
    evaluate_samples(arguments.evaluation, group, [&]() -> JudgedModel {
      session = open_generator(arguments.sampling, launch);
      return {sampled_model(*session, arguments.sampling),
              session->config().tokens.empty(),
              describe_sampling(*session, arguments.sampling),
              sampling_json(*session, arguments.sampling),
              session->config().classes,
              arguments.sampling.label};
    });
  });
}

struct GenerateExportArguments {
  GenerateArguments model;
  std::string out, program;
  bool force = false;
};

/// The network alone, by the names of another program.
void export_to_program(const GenerateExportArguments& arguments) {
  check_output_files({{"--out", arguments.out, ".safetensors"}}, arguments.force);
  if (!arguments.out.ends_with(".safetensors")) {
    throw UserError("--out: {} does not end in .safetensors", arguments.out);
  }
  const auto generator = load_generator(arguments.model.model);
  require_distinct({{"MODEL", generator.file}, {"--out", arguments.out}});
  write_safetensors(arguments.out,
                    {with_their_names(generator, arguments.program), {{"format", "pt"}}});
  fmt::print("{}\n", arguments.out);
}

void run_generate_export(const GenerateExportArguments& arguments) {
  if (!arguments.program.empty()) return export_to_program(arguments);
  check_output_folder(arguments.out);
  auto model = arguments.model;
  model.device = "cpu";
  const auto session = open_generator(model);
  export_generator(session->generator(),
                   session->has_tokenizer() ? &session->codec().model() : nullptr, arguments.out);
  fmt::print("{}\n", arguments.out);
}

}  // namespace

void declare_generate_eval(CLI::App& app) {
  const auto arguments = std::make_shared<GenerateEvalArguments>();
  declare_generate_arguments(app, arguments->sampling);
  declare_resize(app, arguments->sampling);
  declare_evaluation(app, arguments->evaluation);
  app.callback([arguments] { run_generate_eval(*arguments); });
}

void declare_generate_export(CLI::App& app) {
  const auto arguments = std::make_shared<GenerateExportArguments>();
  declare_sampled_model(app, arguments->model);
  app.add_option("--out", arguments->out,
                 "a new folder for the generator, its tokenizer and their settings; with --as "
                 "FILE.safetensors for the network")
      ->required()
      ->type_name("PATH");
  app.add_option(
         "--as", arguments->program,
         fmt::format("{}: names and sizes of that program", fmt::join(generator_programs(), ", ")))
      ->type_name("NAME")
      ->check(CLI::IsMember(generator_programs()));
  declare_force(app, arguments->force);
  app.callback([arguments] { run_generate_export(*arguments); });
}

void declare_generate(CLI::App& app) {
  declare_commands(
      app,
      {{"train", "train a generator on a tokenizer's tokens", declare_generate_train},
       {"sample", "sample images or tokens from a trained generator", declare_generate_sample},
       {"eval", "compare samples of a generator with images, as sets (FID)", declare_generate_eval},
       {"inpaint", "make a part of an image anew, or let it go on to a side",
        declare_generate_inpaint},
       {"export", "write a generator and its tokenizer to one folder, or for another program",
        declare_generate_export},
       {"import", "make a generator of another program's weights", declare_generate_import},
       {"config", "print a recipe with all its settings, or a reference of all keys",
        declare_generate_config}});
}

}  // namespace nsvq
