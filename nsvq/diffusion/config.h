#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsvq/diffusion/noise_schedule.h"
#include "nsvq/diffusion/prediction.h"
#include "nsvq/diffusion/sampler.h"
#include "nsvq/nn/unet.h"
#include "nsvq/recipe/classes.h"
#include "nsvq/recipe/run_config.h"
#include "nsvq/recipe/run_kind.h"
#include "nsvq/settings/option_table.h"

namespace nsvq {

/// Every setting of a run that trains latent diffusion on a tokenizer. The defaults are the paper's
/// where it says them.
struct DiffusionConfig : RunConfig {
  static constexpr auto kind = RunKind::diffusion;

  DiffusionConfig();

  UnetConfig unet;
  NoiseConfig noise;
  ObjectiveConfig objective;
  SampleConfig sample;
  std::string tokenizer;
  std::string tokens, cached;
  std::string latents = "encoder";
  std::string normalise = "channels";
  double scale = 1;
  int64_t statistics_images = 50000;
  int64_t classes = 0;
  double label_dropout = 0.1;
  double guidance = 1;

  ToldClasses told() const { return {classes, label_dropout, "diffusion"}; }
  /// Rows of the network's table of classes: one more where labels are dropped; 0 without classes.
  int64_t labels() const { return classes == 0 ? 0 : classes + (label_dropout > 0 ? 1 : 0); }
};

/// The table of all settings, bound to the fields of `config`.
OptionTable option_table(DiffusionConfig& config);

/// `config` with paths that do not depend on the current folder; those of diffusion.* without dots.
DiffusionConfig with_absolute_paths(DiffusionConfig config);

/// The settings that matter most or differ from the defaults, for the log.
std::string summarize_settings(const DiffusionConfig& config);

/// The setting that names what is trained on: diffusion.tokens, diffusion.cached or data.train.
std::string training_data_key(const DiffusionConfig& config);

/// Throws UserError when settings that are valid one by one contradict each other.
void check_diffusion_settings(const DiffusionConfig& config);

}  // namespace nsvq
