#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/diffusion/diffusion_trainer.h"
#include "tests/tokenizer/tiny_tokenizer.h"

namespace nsvq {

/// Settings that train in a second or two.
inline DiffusionConfig tiny_diffusion_config(const std::filesystem::path& tokenizer) {
  DiffusionConfig config;
  config.tokenizer = tokenizer.string();
  config.device = "cpu";  // whose figures tests compare; a GPU would take bf16
  config.threads = 1;
  config.data.train = "builtin:dead-leaves?size=16&count=24";
  config.data.val = "builtin:dead-leaves?size=16&count=7&seed=1";
  config.data.size = 16;
  config.data.crop = "center";
  config.data.flip = false;
  config.optimizer.lr = 1e-3;
  config.train.batch_size = 8;
  config.train.epochs = 2;
  config.train.log_every = 1;
  config.train.samples = 3;
  config.unet = {.width = 8, .multipliers = {1, 2}, .blocks = 1, .attention = {1}, .heads = 2};
  config.sample.steps = 4;
  return config;
}

}  // namespace nsvq
