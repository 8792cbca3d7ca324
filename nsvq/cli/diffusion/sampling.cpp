#include <CLI/CLI.hpp>

#include "nsvq/cli/arguments/memory_advice.h"
#include "nsvq/cli/arguments/values.h"
#include "nsvq/cli/diffusion/diffusion.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/core/device.h"
#include "nsvq/core/lookup.h"

namespace nsvq {

namespace {

/// The model's settings of sampling, overridden by the command line.
DiffusionConfig with_arguments(DiffusionConfig config, const SampleArguments& arguments) {
  auto& sample = config.sample;
  if (!arguments.sampler.empty() && arguments.sampler != sample.sampler) {
    sample.sampler = arguments.sampler;
    if (arguments.eta < 0) sample.eta = 0;  // the model's is for its own sampler
  }
  if (!arguments.spacing.empty()) sample.spacing = arguments.spacing;
  if (!arguments.last.empty()) sample.last = arguments.last;
  if (arguments.steps > 0) sample.steps = arguments.steps;
  if (arguments.eta >= 0) sample.eta = arguments.eta;
  if (arguments.guidance >= 0) {
    check_guidance(config.told(), arguments.guidance, "--guidance");
    config.guidance = arguments.guidance;
  }
  plan_sampling(make_noise_schedule(config.noise), sample);  // throws for what does not fit
  labels_for(config.told(), wanted_class(arguments.label), {});
  return config;
}

}  // namespace

void declare_sample_arguments(CLI::App& app, SampleArguments& arguments) {
  declare_sampled_model(app, arguments);
  declare_device(app, arguments.device);
  app.add_option("--sampler", arguments.sampler,
                 "ddim, ddpm or dpm-solver++ (default: the model's); the setting sample.sampler")
      ->check(CLI::IsMember(names_of(sampler_kinds())));
  app.add_option("--steps", arguments.steps,
                 "steps (default: the model's); the setting sample.steps")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--spacing", arguments.spacing,
                 "of times: trailing, leading or compvis (default: the model's sample.spacing)")
      ->check(CLI::IsMember(kSpacings))
      ->group(kRare);
  app.add_option("--last", arguments.last,
                 "noise after the last step: none (one) or the first time's (first) (default: the "
                 "model's sample.last)")
      ->check(CLI::IsMember(kLasts))
      ->group(kRare);
  app.add_option("--eta", arguments.eta, "ddim: share of fresh noise (default: the model's)")
      ->check(check_number(Range::between(0, 1)))
      ->group(kRare);
  app.add_option("--guidance", arguments.guidance,
                 "weight of the class, 1 without guidance (default: the model's)")
      ->check(check_number(Range::between(0, 1000)));
  app.add_flag("--unquantised", arguments.unquantised,
               "decode latents as they are, not the codes nearest to them")
      ->group(kRare);
  declare_sampling(app, arguments);
}

DiffusionSession open_diffusion(const SampleArguments& arguments, const Launch& launch) {
  note_batch_size("--batch-size ", arguments.batch_size);
  auto model = load_diffusion(arguments.model);
  model.config = with_arguments(std::move(model.config), arguments);
  return DiffusionSession(std::move(model), arguments.tokenizer,
                          choose_device(arguments.device, launch.local_rank),
                          default_threads(launch.local_size));
}

SampledModel sampled_model(DiffusionSession& session, const SampleArguments& arguments) {
  const auto& config = session.config();
  const auto images = [&session, seed = arguments.seed, label = wanted_class(arguments.label),
                       quantise = !arguments.unquantised](int64_t first, int64_t end) {
    SampleRequest request;
    request.seed = seed;
    request.quantise = quantise;
    for (int64_t i = first; i < end; ++i) request.indices.push_back(i);
    request.labels = labels_for(session.config().told(), label, request.indices, seed);
    return session.sample(request);
  };
  return {
      session.model().file.string(), config, session.device(), config.data.size, config.data.size,
      arguments.batch_size,          images};
}

}  // namespace nsvq
