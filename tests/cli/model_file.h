#pragma once

#include <torch/utils.h>

#include <filesystem>

#include "nsvq/io/formats/safetensors.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/tokenizer/tokenizer.h"

namespace nsvq {

/// A model file of random weights, as a checkpoint holds one.
inline void write_model_file(const std::filesystem::path& path, const TokenizerConfig& config,
                             uint64_t seed = 0) {
  torch::manual_seed(seed);
  Tokenizer model(config);
  write_safetensors(path, {named_tensors(*model), {{"nsvq.config", to_yaml(config)}}});
}

}  // namespace nsvq
