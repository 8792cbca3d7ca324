#include "nsvq/diffusion/config.h"

#include <filesystem>
#include <set>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/recipe/network_training.h"
#include "nsvq/recipe/settings_summary.h"

namespace nsvq {

namespace {

std::vector<Option> own_options(DiffusionConfig& config) {
  const std::vector<Option> own = {
      {"diffusion.tokenizer", &config.tokenizer,
       "the tokenizer whose latents are learned: a run, a checkpoint or a model file",
       Range::any_path(), kNotOnResult},
      {"diffusion.tokens", &config.tokens,
       "a folder of `nsvq tokenize` to train on in place of data.train, for latents: codes",
       Range::any_path(), kNotOnResult},
      {"diffusion.cached", &config.cached,
       "a folder of `nsvq encode` to train on in place of data.train, for latents: encoder",
       Range::any_path(), kNotOnResult},
      {"diffusion.latents", &config.latents,
       "what is learned: the encoder's output, quantised only when decoding, or the codes",
       Range::one_of({"encoder", "codes"})},
      {"diffusion.normalise", &config.normalise,
       "what the network sees: latents of mean 0 and deviation 1 in each channel (channels), or as "
       "the tokenizer has them (none)",
       Range::one_of({"channels", "none"})},
      {"diffusion.scale", &config.scale,
       "a factor of these latents; below 1 noise covers them at earlier times",
       Range::between(1e-3, 1e3)},
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
  return joined({noise_options(config.noise), objective_options(config.objective), own});
}

std::vector<Option> sampling_options(DiffusionConfig& config) {
  const std::vector<Option> guidance = {
      {"sample.guidance", &config.guidance,
       "weight of the class: 1 without guidance, 0 as if it were not told", Range::between(0, 1000),
       kNotOnResult}};
  return joined({sample_options(config.sample), guidance});
}

}  // namespace

DiffusionConfig::DiffusionConfig() {
  data.flip = true;
  optimizer.beta1 = 0.9;
  optimizer.beta2 = 0.999;
  optimizer.ema_decay = 0.9999;
  train.epochs = 100;
  train.samples = 16;
}

OptionTable option_table(DiffusionConfig& config) {
  OptionTable table;
  table.rows = joined({run_options(config), data_options(config.data), own_options(config),
                       unet_options(config.unet), sampling_options(config),
                       network_training_options(config)});
  table.other_sections = sections_of_other_kinds(config.kind);
  table.dependent_defaults = [&config] { return data_defaults(config.data); };
  table.check = [&config] { check_diffusion_settings(config); };
  table.other_words = words_of_other_programs();
  table.help = "`nsvq diffusion config --reference` lists all keys";
  return table;
}

std::string training_data_key(const DiffusionConfig& config) {
  if (!config.tokens.empty()) return "diffusion.tokens";
  return config.cached.empty() ? "data.train" : "diffusion.cached";
}

std::string summarize_settings(const DiffusionConfig& config) {
  auto copy = config;
  DiffusionConfig defaults;
  const std::set<std::string> of_images = {"data.train", "data.crop", "data.flip"};
  std::set<std::string> shown = {"seed",
                                 "data.train",
                                 "data.val",
                                 "data.size",
                                 "unet.width",
                                 "unet.multipliers",
                                 "diffusion.tokenizer",
                                 "diffusion.schedule",
                                 "diffusion.prediction",
                                 "optimizer.lr",
                                 "train.epochs",
                                 "train.batch_size"};
  const auto trained_on = training_data_key(config);
  const bool images = trained_on == "data.train";
  if (!images) shown.insert(of_images.begin(), of_images.end());
  const auto note = [&](const std::string& key) -> std::string {
    if (images || !of_images.contains(key)) return "";
    return fmt::format("  (without effect: {} is trained on)", trained_on);
  };
  return summarize_settings(option_table(copy), option_table(defaults), shown, note);
}

void check_diffusion_settings(const DiffusionConfig& config) {
  check_data(config.data);
  check_unet(config.unet);
  plan_sampling(make_noise_schedule(config.noise), config.sample);
  check_guidance(config.told(), config.guidance, "sample.guidance");
  if (!config.tokens.empty() && !config.cached.empty()) {
    throw UserError("diffusion.tokens and diffusion.cached: name one of the two");
  }
  if (!config.tokens.empty() && config.latents != "codes") {
    throw UserError(
        "diffusion.tokens are those of codes, so diffusion.latents must be codes, but it is {}",
        config.latents);
  }
  if (config.cached.empty()) return;
  if (config.latents != "encoder") {
    throw UserError(
        "diffusion.cached are encoder outputs, so diffusion.latents must be encoder, but it is {}",
        config.latents);
  }
}

DiffusionConfig with_absolute_paths(DiffusionConfig config) {
  change_paths(option_table(config), absolute_path);
  for (auto* path : {&config.tokenizer, &config.tokens, &config.cached}) {
    *path = std::filesystem::path(*path).lexically_normal().string();
  }
  return config;
}

}  // namespace nsvq
