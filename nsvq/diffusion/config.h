#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsvq/diffusion/noise_schedule.h"
#include "nsvq/diffusion/sampler.h"
#include "nsvq/diffusion/weighting.h"
#include "nsvq/nn/unet.h"
#include "nsvq/settings/config.h"
#include "nsvq/settings/option_table.h"

namespace nsvq {

/// Every setting of a run that trains latent diffusion on a tokenizer. The defaults are the paper's
/// where it says them.
struct DiffusionConfig {
  DiffusionConfig();

  /// What every run has: seed, device, threads, data, optimizer, train, dist and checkpoint. Its
  /// other parts are a tokenizer's and are not looked at.
  Config run;
  UnetConfig unet;
  NoiseConfig noise;
  ObjectiveConfig objective;
  SampleConfig sample;
  std::string tokenizer;
  std::string tokens, cached;
  std::string latents = "encoder";
  int64_t statistics_images = 50000;
  int64_t classes = 0;
  double label_dropout = 0.1;
  double guidance = 1;

  /// Rows of the network's table of classes: one more where labels are dropped; 0 without classes.
  int64_t labels() const { return classes == 0 ? 0 : classes + (label_dropout > 0 ? 1 : 0); }
};

/// The table of all settings, bound to the fields of `config`.
OptionTable diffusion_options(DiffusionConfig& config);

/// As their namesakes of a tokenizer's settings (nsvq/recipe/recipe.h).
DiffusionConfig load_diffusion_config(const std::string& path,
                                      const std::vector<std::string>& overrides = {});
DiffusionConfig parse_diffusion_config(const std::string& text, const std::string& source);
std::string to_yaml(const DiffusionConfig& config);
std::vector<std::string> essential_differences(const DiffusionConfig& here,
                                               const DiffusionConfig& there);
/// The settings that matter most or differ from the defaults, for the log.
std::string summarize_settings(const DiffusionConfig& config);

/// The setting that names what is trained on: diffusion.tokens, diffusion.cached or data.train.
std::string training_data_key(const DiffusionConfig& config);

/// Throws UserError when settings that are valid one by one contradict each other.
void check_diffusion_settings(const DiffusionConfig& config);
/// Throws UserError, calling it `key`, for a guidance that the model was not trained for.
void check_guidance(const DiffusionConfig& config, double guidance, const std::string& key);

/// The same settings with `~` in paths replaced by the user's home, and with paths that do not
/// depend on the current folder.
DiffusionConfig with_home(DiffusionConfig config);
DiffusionConfig with_absolute_paths(DiffusionConfig config);

}  // namespace nsvq
