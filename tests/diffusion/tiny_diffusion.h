#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/diffusion/diffusion_trainer.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/tokenizer/model_file.h"

namespace nsvq {

/// The settings of a tokenizer of images of 16x16: 4 channels on a grid of 4x4.
inline TokenizerConfig tiny_tokenizer_config(const std::string& quantizer = "vq") {
  TokenizerConfig config;
  config.quantizer.type = quantizer;
  config.data.size = 16;
  config.model.width = 8;
  config.model.multipliers = {1, 2, 2};
  config.model.blocks = 1;
  config.model.latent_dim = 4;
  config.quantizer.codes = 64;
  return config;
}

/// Writes one with fresh weights; returns the file.
inline std::filesystem::path write_tiny_tokenizer(
    const std::filesystem::path& folder, const TokenizerConfig& config = tiny_tokenizer_config()) {
  auto tokenizer = make_tokenizer(config, at::kCPU);
  const auto file = folder / "tokenizer.safetensors";
  write_model(file, named_tensors(*tokenizer), config);
  return file;
}

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
