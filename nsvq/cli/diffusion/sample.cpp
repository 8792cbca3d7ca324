#include <CLI/CLI.hpp>
#include <memory>

#include "nsvq/cli/arguments/output_name.h"
#include "nsvq/cli/diffusion/diffusion.h"
#include "nsvq/diffusion/diffusion_session.h"

namespace nsvq {

namespace {

struct DiffusionSampleArguments : SampleArguments {
  int64_t count = 64;
  std::string out;
  bool force = false;
};

/// What the pictures depend on. The size of batches and the device may change the last bit.
ResumableFolder::Settings sampled_settings(const DiffusionSession& session,
                                           const DiffusionSampleArguments& arguments) {
  const auto& config = session.config();
  const auto& sample = config.sample;
  ResumableFolder::Settings settings = {
      {"command", "diffusion sample"},
      {"model", session.sha256()},
      {"sampler", fmt::format("{} {} {} {} {}", sample.sampler, sample.steps, sample.eta,
                              sample.spacing, sample.last)},
      {"class", arguments.label},
      {"guidance", fmt::to_string(config.guidance)},
      {"seed", fmt::to_string(arguments.seed)},
      {"batch size", fmt::to_string(arguments.batch_size)},
      {"precision", config.train.precision},
      {"device", session.device().is_cpu() ? "cpu" : "cuda"}};
  if (arguments.unquantised) settings["latents"] = "unquantised";
  return settings;
}

void run_diffusion_sample(const DiffusionSampleArguments& arguments) {
  check_sample_output(arguments.out, arguments.force);
  work_on_ranks(arguments, [&](const Launch& launch, Group& group) {
    auto session = open_diffusion(arguments, launch);
    write_samples(sampled_model(session, arguments), arguments.out, arguments.count,
                  sampled_settings(session, arguments), group);
    if (group.leads()) fmt::print("{}\n", arguments.out);
  });
}

struct DiffusionExportArguments {
  SampleArguments model;
  std::string out;
};

void run_diffusion_export(const DiffusionExportArguments& arguments) {
  check_output_folder(arguments.out);
  auto model = arguments.model;
  model.device = "cpu";
  const auto session = open_diffusion(model);
  export_diffusion(session.model(), session.tokenizer(), arguments.out);
  fmt::print("{}\n", arguments.out);
}

}  // namespace

void declare_diffusion_sample(CLI::App& app) {
  const auto arguments = std::make_shared<DiffusionSampleArguments>();
  declare_sample_arguments(app, *arguments);
  declare_count(app, arguments->count, 1);
  declare_sample_output(app, arguments->out, arguments->force);
  app.callback([arguments] { run_diffusion_sample(*arguments); });
}

void declare_diffusion_export(CLI::App& app) {
  const auto arguments = std::make_shared<DiffusionExportArguments>();
  declare_sampled_model(app, arguments->model);
  app.add_option("--out", arguments->out,
                 "a new folder for the network, its tokenizer and their settings")
      ->required()
      ->type_name("DIR");
  app.callback([arguments] { run_diffusion_export(*arguments); });
}

}  // namespace nsvq
