#pragma once

#include <cstdint>
#include <string>

#include "nsvq/cli/sampling/sampled_model.h"
#include "nsvq/diffusion/diffusion_session.h"
#include "nsvq/dist/group.h"

namespace CLI {
class App;
}

namespace nsvq {

// Subcommands of `nsvq diffusion`.
void declare_diffusion_train(CLI::App& app);
void declare_diffusion_sample(CLI::App& app);
void declare_diffusion_eval(CLI::App& app);
void declare_diffusion_export(CLI::App& app);
void declare_diffusion_probe(CLI::App& app);

/// Arguments of every subcommand that samples. Numbers below 0 and empty texts mean the model's own
/// settings.
struct SampleArguments : SamplingArguments {
  std::string sampler, spacing, last;
  int64_t steps = -1;
  double eta = -1, guidance = -1;
  bool unquantised = false;
};

void declare_sample_arguments(CLI::App& app, SampleArguments& arguments);

/// The model, with these arguments overriding its own settings. Throws UserError naming the option
/// that does not fit.
DiffusionSession open_diffusion(const SampleArguments& arguments, const Launch& launch = {});

/// What commands that sample know of it. `session` outlives it.
SampledModel sampled_model(DiffusionSession& session, const SampleArguments& arguments);

}  // namespace nsvq
