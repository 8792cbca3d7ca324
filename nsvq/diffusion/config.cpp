#include "nsvq/diffusion/config.h"

#include <filesystem>
#include <set>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/data/sources/paths.h"
#include "nsvq/recipe/settings_summary.h"
#include "nsvq/runs/run_config.h"

namespace nsvq {

DiffusionConfig::DiffusionConfig() {
  run.data.flip = true;
  run.optimizer.beta1 = 0.9;
  run.optimizer.beta2 = 0.999;
  run.optimizer.ema_decay = 0.9999;
  run.train.epochs = 100;
  run.train.samples = 16;
}

DiffusionConfig load_diffusion_config(const std::string& path,
                                      const std::vector<std::string>& overrides) {
  DiffusionConfig config;
  diffusion_options(config).load(path, overrides);
  return config;
}

DiffusionConfig parse_diffusion_config(const std::string& text, const std::string& source) {
  DiffusionConfig config;
  diffusion_options(config).parse(text, source);
  return config;
}

std::string to_yaml(const DiffusionConfig& config) {
  auto copy = config;  // a table binds to what it could change
  return diffusion_options(copy).to_yaml();
}

std::vector<std::string> essential_differences(const DiffusionConfig& here,
                                               const DiffusionConfig& there) {
  auto ours = here, theirs = there;
  return diffusion_options(ours).differences(diffusion_options(theirs));
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
  return summarize_settings(diffusion_options(copy), diffusion_options(defaults), shown, note);
}

void check_diffusion_settings(const DiffusionConfig& config) {
  check_unet(config.unet);
  plan_sampling(make_noise_schedule(config.noise), config.sample);
  check_guidance(config, config.guidance, "sample.guidance");
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

void check_guidance(const DiffusionConfig& config, double guidance, const std::string& key) {
  if (guidance == 1) return;
  if (config.classes == 0) {
    throw UserError("{} {}: the model knows no classes (diffusion.classes is 0); leave it 1", key,
                    guidance);
  }
  if (config.label_dropout > 0) return;
  throw UserError(
      "{} {}: guidance needs a model that was trained with dropped labels, but "
      "diffusion.label_dropout is 0; leave it 1",
      key, guidance);
}

DiffusionConfig with_home(DiffusionConfig config) {
  config.run = with_home(std::move(config.run));
  for (auto* path : {&config.tokenizer, &config.tokens, &config.cached}) *path = home_path(*path);
  return config;
}

DiffusionConfig with_absolute_paths(DiffusionConfig config) {
  config.run = with_absolute_paths(std::move(config.run));
  for (auto* path : {&config.tokenizer, &config.tokens, &config.cached}) {
    if (path->empty()) continue;
    *path = std::filesystem::absolute(*path).lexically_normal().string();
  }
  return config;
}

}  // namespace nsvq
