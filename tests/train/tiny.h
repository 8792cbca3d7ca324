#pragma once

#include "nsvq/core/config.h"

namespace nsvq {

/// A configuration that trains through all phases in a second or two.
inline Config tiny_config() {
  Config config;
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
  config.replacement.exempt_epochs = 1;
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

/// The same with a quantizer of another type and what it asks for.
inline Config tiny_config_of(const std::string& type) {
  auto config = tiny_config();
  config.quantizer.type = type;
  config.quantizer.features.dim = 4;
  config.quantizer.bridge = {.patch = 2, .width = 8, .heads = 2, .blocks = 1};
  if (type == "fvq") config.quantizer.codes = 36;
  config.quantizer.fsq.levels = {4, 3, 2, 2, 2, 2, 2, 2};
  config.quantizer.lfq.bits = config.model.latent_dim;
  config.quantizer.gumbel.anneal_steps = 15;  // so that a step's number matters
  config.quantizer.sqvae.anneal = 0.05;
  return config;
}

}  // namespace nsvq
