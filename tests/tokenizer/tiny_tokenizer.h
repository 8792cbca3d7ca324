#pragma once

#include <filesystem>
#include <string>

#include "nsvq/nn/named_tensors.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/tokenizer/model_file.h"
#include "nsvq/tokenizer/tokenizer.h"

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

}  // namespace nsvq
