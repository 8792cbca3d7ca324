#pragma once

#include "nsvq/quantizers/replacement/replacement.h"
#include "nsvq/recipe/tokenizer_config.h"

namespace nsvq {

/// A configuration that trains through all phases in a second or two.
inline TokenizerConfig tiny_config() {
  TokenizerConfig config;
  config.data.train = "builtin:dead-leaves?size=16&count=24";
  config.data.val = "builtin:dead-leaves?size=16&count=7&seed=1";
  config.data.size = 16;
  config.model.width = 8;
  config.model.multipliers = {1, 2};
  config.model.blocks = 1;
  config.model.latent_dim = 8;
  config.quantizer.codes = 32;
  config.optimizer.lr = 1e-3;
  config.optimizer.ema_decay = 0.9;
  config.replacement.of<CopyReplacementConfig>().exempt_epochs = 1;
  config.schedule.freeze = "epoch";
  config.schedule.freeze_epoch = 3;
  config.schedule.warmup_epochs = 1;
  config.train.epochs = 6;
  config.train.batch_size = 8;
  config.train.log_every = 1;
  config.train.samples = 3;
  config.threads = 1;
  return config;
}

/// What varies by the step in `config`: rates of parts, schedules, clipping, windows of replacement
/// and of the schedule that do not end with epochs.
inline void vary_by_the_step(TokenizerConfig& config) {
  auto& optimizer = config.optimizer;
  optimizer.scale = {.encoder = 0.5, .decoder = 2, .quantizer = 10, .discriminator = 0.25};
  optimizer.schedule = {.shape = "cosine", .warmup_steps = 3, .final_share = 0.1};
  optimizer.discriminator_schedule = {.shape = "linear", .warmup_steps = 2};
  optimizer.weight_decay = 0.01;
  optimizer.clip_norm = 0.5;
  config.replacement.every_steps = 4;
  config.schedule.epoch_steps = 5;
  config.schedule.freeze_epoch = 2;
}

/// A small quantizer of another type with the defaults of its kind.
inline TokenizerConfig tiny_config_of(const std::string& type) {
  auto config = tiny_config();
  config.quantizer.type = type;
  option_table(config).load("", quantizer_kind(type).small);
  return config;
}

}  // namespace nsvq
