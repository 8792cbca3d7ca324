// The table of all settings of a tokenizer, and the rows of those of a run and its data.

#include <string>
#include <utility>

#include "nsvq/core/thread_limit.h"
#include "nsvq/losses/adversarial.h"
#include "nsvq/losses/loss.h"
#include "nsvq/nn/options.h"
#include "nsvq/quantizers/quantizer.h"
#include "nsvq/quantizers/replacement/replacement.h"
#include "nsvq/recipe/optimizer_options.h"
#include "nsvq/recipe/recipe.h"
#include "nsvq/recipe/training_options.h"

namespace nsvq {

namespace {

constexpr Effect kNoEffect = Effect::not_on_result;

std::vector<Option> run_options(Config& config) {
  return {
      {"seed", &config.seed, "seed of everything random in a run", Range::at_least(0)},
      {"device", &config.device, "where to compute; auto: the GPU if there is one",
       Range::one_of({"auto", "cpu", "cuda"}), kNoEffect},
      {"threads", &config.threads,
       "CPU threads for computing; 0: OMP_NUM_THREADS or, where it is not set, all cores",
       Range::between(0, kMostThreads), kNoEffect},
  };
}

std::vector<Option> data_options(DataConfig& data) {
  return {
      {"data.train", &data.train,
       "training images: builtin:..., folders, tar shards, pipe:COMMAND; one or a list",
       Range::not_empty(), kNoEffect},
      {"data.val", &data.val,
       "evaluation images: builtin:..., folders, tar shards, pipe:COMMAND; one or a list",
       Range::not_empty(), kNoEffect},
      {"data.size", &data.size, "side in pixels to which images are scaled and cropped",
       Range::between(8, 4096)},
      {"data.crop", &data.crop, "which square of a training image to take",
       Range::one_of({"random", "center"})},
      {"data.flip", &data.flip, "mirror half of the training images", Range::yes_no()},
      {"data.on_error", &data.on_error, "what to do about an unreadable image",
       Range::one_of({"skip", "stop"}), kNoEffect},
      {"data.max_pixels", &data.max_pixels, "an image of more pixels counts as unreadable",
       Range::between(1, 1e12), kNoEffect},
      {"data.threads", &data.threads,
       "threads that read and decode images; 0: two, and for a GPU all cores but two",
       Range::between(0, 256), kNoEffect},
      {"data.prefetch", &data.prefetch, "batches kept ready", Range::between(1, 64), kNoEffect},
      {"data.shuffle_buffer", &data.shuffle_buffer,
       "encoded images held to shuffle those of pipe:COMMAND", Range::between(1, 1e7)},
      {"data.retries", &data.retries, "times that a failing pipe:COMMAND is run again",
       Range::between(0, 1000), kNoEffect},
  };
}

}  // namespace

OptionTable tokenizer_options(Config& config) {
  OptionTable table;
  for (const char* section : {"diffusion", "unet", "sample"}) {
    table.other_sections[section] = "latent diffusion (nsvq diffusion)";
  }
  for (auto section :
       {run_options(config), data_options(config.data), model_options(config.model),
        quantizer_options(config.quantizer), loss_options(config.loss),
        adversarial_options(config.adversarial), discriminator_options(config.adversarial),
        lr_schedule_options("adversarial.schedule", "discriminator",
                            config.optimizer.discriminator_schedule,
                            {"same", "constant", "linear", "cosine"}),
        optimizer_options(config.optimizer), replacement_options(config.replacement),
        training_options(config)}) {
    for (auto& row : section) table.rows.push_back(std::move(row));
  }
  table.dependent_defaults = [&config] {
    auto defaults = quantizer_kind(config.quantizer.type).defaults;
    if (!config.train.init_from.empty()) defaults.emplace_back("quantizer.init=kmeans");
    return defaults;
  };
  table.check = [&config] { check_settings(config); };
  table.help = "`nsvq config --reference` lists all keys";
  return table;
}

}  // namespace nsvq
