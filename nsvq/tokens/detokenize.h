#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "nsvq/tokenizer/inference_session.h"
#include "nsvq/tokens/token_manifest.h"

namespace nsvq {

/// Opens a folder of tokens for a model and checks every shard. Throws UserError if the folder is
/// incomplete or (without `force`) made by a different model, or if a shard is missing, damaged or
/// contains an index outside the model's codebook. `advice` is appended to the message about the
/// model.
TokenManifest open_tokens(const std::filesystem::path& folder, const Tokenizer& tokenizer,
                          bool force, const std::string& advice = "");

/// Decodes all tokens in batches and passes each batch to `use`: images [B, 3, H, W] on the CPU,
/// and their keys. Skips the first `done` images, which must be whole batches.
void detokenize(
    InferenceSession& session, const std::filesystem::path& folder, const TokenManifest& manifest,
    int64_t batch_size, int64_t done,
    const std::function<void(const torch::Tensor&, const std::vector<std::string>&)>& use);

}  // namespace nsvq
