#pragma once

#include <cstdint>
#include <string>

#include "nsvq/diffusion/diffusion_session.h"

namespace CLI {
class App;
}

namespace nsvq {

// The subcommands of `nsvq diffusion`.
void declare_diffusion_train(CLI::App& app);
void declare_diffusion_sample(CLI::App& app);
void declare_diffusion_eval(CLI::App& app);
void declare_diffusion_export(CLI::App& app);
void declare_diffusion_config(CLI::App& app);

/// Arguments of every subcommand that samples. Numbers below 0 and empty texts stand for the
/// model's own settings.
struct SampleArguments {
  std::string model, tokenizer, device = "auto";
  std::string sampler;
  int64_t steps = -1;
  double eta = -1, guidance = -1;
  std::string label = "all";
  int64_t seed = 0;
  int64_t batch_size = 64;
};

void declare_sample_arguments(CLI::App& app, SampleArguments& arguments);
/// Declares the model, --tokenizer and --device alone.
void declare_diffusion_model(CLI::App& app, SampleArguments& arguments);

/// The model with these arguments in place of its own settings. Throws UserError naming the option
/// that does not fit it.
DiffusionSession open_diffusion(const SampleArguments& arguments);

/// The images [first, end) to ask for, with their classes.
SampleRequest request_images(const DiffusionSession& session, const SampleArguments& arguments,
                             int64_t first, int64_t end);

}  // namespace nsvq
