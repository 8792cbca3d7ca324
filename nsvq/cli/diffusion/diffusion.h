#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "nsvq/diffusion/diffusion_session.h"
#include "nsvq/dist/group.h"
#include "nsvq/recipe/dist.h"

namespace CLI {
class App;
}

namespace nsvq {

// Subcommands of `nsvq diffusion`.
void declare_diffusion_train(CLI::App& app);
void declare_diffusion_sample(CLI::App& app);
void declare_diffusion_eval(CLI::App& app);
void declare_diffusion_export(CLI::App& app);

/// Arguments of every subcommand that samples. Numbers below 0 and empty texts mean the model's own
/// settings.
struct SampleArguments {
  std::string model, tokenizer, device = "auto";
  std::string sampler, spacing, last;
  int64_t steps = -1;
  double eta = -1, guidance = -1;
  std::string label = "all";
  int64_t seed = 0;
  int64_t batch_size = 64;
  int gpus = 0;
  double timeout = DistConfig().timeout;
};

void declare_sample_arguments(CLI::App& app, SampleArguments& arguments);
/// MODEL and --tokenizer alone.
void declare_diffusion_model(CLI::App& app, SampleArguments& arguments);
/// `--count`: how many.
void declare_count(CLI::App& app, int64_t& count, int64_t least);

/// The model, with these arguments overriding its own settings. Throws UserError naming the option
/// that does not fit.
DiffusionSession open_diffusion(const SampleArguments& arguments, const Launch& launch = {});

/// Does `work` in this process, or in several if --gpus or a launcher asks for it.
using RankWork = std::function<void(const Launch& launch, Group& group)>;
void work_on_ranks(const SampleArguments& arguments, const RankWork& work);

/// Samples images [first, end). Ranks sample batches in turn, so that a batch holds the same images
/// whatever their number; rank 0 gets all of them in order.
using UseImages = std::function<void(const torch::Tensor& images, int64_t first)>;
void sample_over_ranks(DiffusionSession& session, const SampleArguments& arguments, Group& group,
                       int64_t first, int64_t end, const UseImages& use);

/// The images [first, end) to ask for, with their classes.
SampleRequest request_images(const DiffusionSession& session, const SampleArguments& arguments,
                             int64_t first, int64_t end);

}  // namespace nsvq
