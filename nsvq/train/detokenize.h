#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "nsvq/io/token_manifest.h"
#include "nsvq/train/tokenizer.h"

namespace nsvq {

/// Opens a folder of tokens for a model. Throws UserError if it is incomplete, or (without `force`)
/// of another model.
TokenManifest open_tokens(const std::filesystem::path& folder, const Tokenizer& model, bool force);

/// Decodes all tokens in batches and hands each to `use`: images [B, 3, H, W] on the CPU with their
/// keys. Throws UserError for a shard that is missing, damaged or does not fit the model.
void detokenize(
    Tokenizer& model, const std::filesystem::path& folder, const TokenManifest& manifest,
    int64_t batch_size, c10::Device device,
    const std::function<void(const torch::Tensor&, const std::vector<std::string>&)>& use);

}  // namespace nsvq
