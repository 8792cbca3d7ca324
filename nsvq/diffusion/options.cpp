// The table of all settings of latent diffusion. Rows that every run has are the tokenizer's.

#include <algorithm>
#include <map>
#include <utility>

#include "nsvq/diffusion/config.h"
#include "nsvq/recipe/optimizer_options.h"
#include "nsvq/recipe/recipe.h"

namespace nsvq {

namespace {

/// Rows of the tokenizer's table with these keys, in its order; a text in place of an empty one is
/// their help here.
std::vector<Option> shared_rows(Config& run, const std::map<std::string, std::string>& keys) {
  std::vector<Option> rows;
  for (auto& row : tokenizer_options(run).rows) {
    const auto found = keys.find(row.key);
    if (found == keys.end()) continue;
    if (!found->second.empty()) row.help = found->second;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<Option> shared_section(Config& run, const std::string& section) {
  std::vector<Option> rows;
  for (auto& row : tokenizer_options(run).rows) {
    if (row.section() == section) rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<Option> shared_optimizer_rows(OptimizerConfig& optimizer, Config& run) {
  auto rows = shared_rows(
      run, {{"optimizer.lr", ""},
            {"optimizer.beta1", ""},
            {"optimizer.beta2", ""},
            {"optimizer.eps", ""},
            {"optimizer.weight_decay", ""},
            {"optimizer.clip_norm", "largest L2 norm of all gradients; 0: no limit"},
            {"optimizer.ema_decay",
             "decay of the averaged weights, less in the first steps: (1 + n) / (10 + n) after n; "
             "0: no average"}});
  for (auto& row : lr_schedule_options("optimizer.schedule", "network", optimizer.schedule,
                                       {"constant", "linear", "cosine"})) {
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<Option> shared_train_rows(Config& run) {
  return shared_rows(run,
                     {{"train.epochs", ""},
                      {"train.steps", ""},
                      {"train.batch_size", ""},
                      {"train.global_batch", ""},
                      {"train.accumulate", ""},
                      {"train.on_nonfinite", ""},
                      {"train.nonfinite_limit", ""},
                      {"train.deterministic", ""},
                      {"train.precision", ""},
                      {"train.graphs", ""},
                      {"train.check_ranks", ""},
                      {"train.log_every", ""},
                      {"train.eval_every", ""},
                      {"train.samples_every", "epochs between grids of generated images; 0: never"},
                      {"train.samples", ""},
                      {"dist.timeout", ""},
                      {"dist.gradients", ""},
                      {"checkpoint.every_steps", ""},
                      {"checkpoint.keep", ""},
                      {"checkpoint.on_error", ""}});
}

std::vector<Option> model_rows(DiffusionConfig& config) {
  auto rows = noise_options(config.noise);
  for (auto& row : objective_options(config.objective)) rows.push_back(std::move(row));
  const std::vector<Option> own = {
      {"diffusion.tokenizer", &config.tokenizer,
       "the tokenizer whose latents are learned: a run, a checkpoint or a model file",
       Range::any_text("a path"), Effect::not_on_result},
      {"diffusion.tokens", &config.tokens,
       "a folder of `nsvq tokenize` to train on in place of data.train, for latents: codes",
       Range::any_text("a path"), Effect::not_on_result},
      {"diffusion.cached", &config.cached,
       "a folder of `nsvq latents` to train on in place of data.train, for latents: encoder",
       Range::any_text("a path"), Effect::not_on_result},
      {"diffusion.latents", &config.latents,
       "what is learned: the encoder's output, quantised only when decoding, or the codes",
       Range::one_of({"encoder", "codes"})},
      {"diffusion.statistics_images", &config.statistics_images,
       "training images, in whole batches, by which the mean and deviation of latents are "
       "measured; 0: all",
       Range::at_least(0)},
      {"diffusion.classes", &config.classes,
       "classes of the training images that the network is told; 0: none", Range::between(0, 1e6)},
      {"diffusion.label_dropout", &config.label_dropout,
       "with classes: share of images whose class is not told, so that samples can be guided",
       Range::from_to_below(0, 1)},
  };
  rows.insert(rows.end(), own.begin(), own.end());
  return rows;
}

}  // namespace

OptionTable diffusion_options(DiffusionConfig& config) {
  auto sample = sample_options(config.sample);
  sample.push_back({"sample.guidance", &config.guidance,
                    "weight of the class: 1 without guidance, 0 as if it were not told",
                    Range::between(0, 1000), Effect::not_on_result});
  OptionTable table;
  for (const char* section :
       {"model", "quantizer", "loss", "adversarial", "replacement", "schedule", "drift"}) {
    table.other_sections[section] = "a tokenizer (nsvq train)";
  }
  for (auto section :
       {shared_section(config.run, ""), shared_section(config.run, "data"), model_rows(config),
        unet_options(config.unet), sample, shared_optimizer_rows(config.run.optimizer, config.run),
        shared_train_rows(config.run)}) {
    for (auto& row : section) table.rows.push_back(std::move(row));
  }
  table.check = [&config] { check_diffusion_settings(config); };
  table.help = "`nsvq diffusion config --reference` lists all keys";
  return table;
}

}  // namespace nsvq
