// `nsvq diffusion`: its subcommands, and `config` among them.

#include "nsvq/cli/diffusion/diffusion.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "nsvq/cli/program/command.h"
#include "nsvq/cli/sampling/evaluate_samples.h"
#include "nsvq/core/error.h"
#include "nsvq/diffusion/config.h"
#include "nsvq/runs/config.h"

namespace nsvq {

namespace {

struct DiffusionConfigArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  bool reference = false;
};

void run_diffusion_config(const DiffusionConfigArguments& arguments) {
  if (arguments.reference) {
    DiffusionConfig defaults;
    fmt::print("{}", option_table(defaults).reference());
    return;
  }
  if (arguments.recipe.empty()) {
    throw UserError("config: name a recipe, or ask for all keys with --reference");
  }
  fmt::print("{}",
             to_yaml(load_recipe_or_run<DiffusionConfig>(arguments.recipe, arguments.overrides)));
}

void declare_diffusion_config(CLI::App& app) {
  const auto arguments = std::make_shared<DiffusionConfigArguments>();
  app.add_option("CONFIG", arguments->recipe, "recipe (YAML), or a run's folder");
  app.add_option("SETTINGS", arguments->overrides, "key=value ..., overriding the recipe");
  app.add_flag("--reference", arguments->reference,
               "print every key with its type, default, range and meaning");
  app.callback([arguments] { run_diffusion_config(*arguments); });
}

struct DiffusionEvalArguments {
  SampleArguments sampling;
  EvaluationArguments evaluation;
};

JudgedModel judged_model(DiffusionSession& session, const SampleArguments& arguments) {
  const auto& config = session.config();
  const auto& sample = config.sample;
  const auto classes =
      config.classes > 0 ? fmt::format(", class {}, guidance {}", arguments.label, config.guidance)
                         : "";
  const auto unquantised = arguments.unquantised ? ", latents not quantised" : "";
  return {sampled_model(session, arguments),
          training_data_key(config) == "data.train",
          fmt::format("{}, {} steps{}{}", sample.sampler, sample.steps, classes, unquantised),
          {{"sampler", sample.sampler},
           {"steps", sample.steps},
           {"eta", sample.eta},
           {"spacing", sample.spacing},
           {"last", sample.last},
           {"quantised", !arguments.unquantised},
           {"class", config.classes > 0 ? Json(arguments.label) : Json()},
           {"guidance", config.guidance},
           {"seed", arguments.seed}},
          config.classes,
          arguments.label};
}

void run_diffusion_eval(const DiffusionEvalArguments& arguments) {
  work_on_ranks(arguments.sampling, [&](const Launch& launch, Group& group) {
    std::unique_ptr<DiffusionSession> session;
    evaluate_samples(arguments.evaluation, group, [&] {
      session.reset(new DiffusionSession(open_diffusion(arguments.sampling, launch)));
      return judged_model(*session, arguments.sampling);
    });
  });
}

}  // namespace

void declare_diffusion_eval(CLI::App& app) {
  const auto arguments = std::make_shared<DiffusionEvalArguments>();
  declare_sample_arguments(app, arguments->sampling);
  declare_evaluation(app, arguments->evaluation);
  app.callback([arguments] { run_diffusion_eval(*arguments); });
}

void declare_diffusion(CLI::App& app) {
  declare_commands(
      app,
      {{"train", "train a latent diffusion model on a tokenizer's latents",
        declare_diffusion_train},
       {"sample", "sample images from a trained model", declare_diffusion_sample},
       {"eval", "compare samples of a model with images, as sets (FID)", declare_diffusion_eval},
       {"probe", "how well a model finds images in noise, by time", declare_diffusion_probe},
       {"export", "write a model and its tokenizer to one folder, for PyTorch",
        declare_diffusion_export},
       {"config", "print a recipe with all its settings, or a reference of all keys",
        declare_diffusion_config}});
}

}  // namespace nsvq
