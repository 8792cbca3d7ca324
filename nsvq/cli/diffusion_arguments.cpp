#include <CLI/CLI.hpp>

#include "nsvq/cli/diffusion.h"
#include "nsvq/cli/memory_advice.h"
#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/lookup.h"
#include "nsvq/core/text.h"

namespace nsvq {

namespace {

/// --class: a number, or -1 for all in turn.
int64_t wanted_class(const std::string& text) {
  if (text == "all") return -1;
  if (const auto number = parse_decimal(text)) return *number;
  throw UserError("--class {}: name a class by its number, or all", quote(text));
}

/// The model's settings of sampling with those that the command line names.
DiffusionConfig with_arguments(DiffusionConfig config, const SampleArguments& arguments) {
  auto& sample = config.sample;
  if (!arguments.sampler.empty() && arguments.sampler != sample.sampler) {
    sample.sampler = arguments.sampler;
    if (arguments.eta < 0) sample.eta = 0;  // that of the model is for its own sampler
  }
  if (arguments.steps > 0) sample.steps = arguments.steps;
  if (arguments.eta >= 0) sample.eta = arguments.eta;
  if (arguments.guidance >= 0) {
    check_guidance(config, arguments.guidance, "--guidance");
    config.guidance = arguments.guidance;
  }
  plan_sampling(make_noise_schedule(config.noise), sample);  // throws what does not fit
  labels_for(config, wanted_class(arguments.label), {});
  return config;
}

}  // namespace

void declare_diffusion_model(CLI::App& app, SampleArguments& arguments) {
  app.add_option("RUN_OR_CHECKPOINT", arguments.model,
                 "a run's folder, a checkpoint folder, an exported folder or a model.safetensors")
      ->required();
  app.add_option("--tokenizer", arguments.tokenizer,
                 "the model's tokenizer, if it is not where it was in training");
}

void declare_sample_arguments(CLI::App& app, SampleArguments& arguments) {
  declare_diffusion_model(app, arguments);
  app.add_option("--device", arguments.device, "auto, cpu or cuda")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--sampler", arguments.sampler,
                 "ddim, ddpm or dpm-solver++ (default: the model's sample.sampler)")
      ->check(CLI::IsMember(names_of(sampler_kinds())));
  app.add_option("--steps", arguments.steps, "steps (default: the model's sample.steps)")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--eta", arguments.eta, "ddim: share of fresh noise (default: the model's)")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--class", arguments.label,
                 "of a model with classes: a class by its number, or all in turn")
      ->capture_default_str();
  app.add_option("--guidance", arguments.guidance,
                 "weight of the class, 1 without guidance (default: the model's)")
      ->check(CLI::Range(0.0, 1000.0));
  app.add_option("--seed", arguments.seed, "image i of a seed is always the same")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--batch-size", arguments.batch_size, "images at a time")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
}

DiffusionSession open_diffusion(const SampleArguments& arguments) {
  note_batch_size("--batch-size ", arguments.batch_size);
  auto model = load_diffusion(arguments.model);
  model.config = with_arguments(std::move(model.config), arguments);
  return DiffusionSession(std::move(model), arguments.tokenizer, choose_device(arguments.device));
}

SampleRequest request_images(const DiffusionSession& session, const SampleArguments& arguments,
                             int64_t first, int64_t end) {
  SampleRequest request;
  request.seed = arguments.seed;
  for (int64_t i = first; i < end; ++i) request.indices.push_back(i);
  request.labels = labels_for(session.config(), wanted_class(arguments.label), request.indices);
  return request;
}

}  // namespace nsvq
