#pragma once

#include <torch/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "nsvq/tokenizer/inference_session.h"
#include "nsvq/tokens/token_manifest.h"

namespace nsvq {

/// Opens a folder of tokens for a model and checks every shard. Throws UserError if the folder is
/// incomplete or (without `force`) made by a different model, if its images have other grids than
/// the model's, or if a shard is missing, damaged or contains an index outside the model's
/// codebook. `advice` is appended to the message about the model.
TokenManifest open_tokens(const std::filesystem::path& folder, const Tokenizer& tokenizer,
                          bool force, const std::string& advice = "");

/// Decodes all tokens in batches and passes each batch to `use`: images [B, 3, H, W] on the CPU,
/// rounded as the model says (as_rounded), and their keys. It decodes the central one of several
/// variants of an image. Skips the first `done` images, which must be whole batches.
void detokenize(
    InferenceSession& session, const std::filesystem::path& folder, const TokenManifest& manifest,
    int64_t batch_size, int64_t done,
    const std::function<void(const torch::Tensor&, const std::vector<std::string>&)>& use);

/// Reads tokens without a manifest, such as samples of a generative model, as int64 [n, h, w], or
/// [n, tokens] of a model with several grids.
/// `name` is a .npy file, a .safetensors file with one integer tensor (or one called tokens), or
/// "-" for raw little-endian int32 on standard input. Shapes are [n, h, w], or [n, h * w] with the
/// model's own h and w, also for raw numbers; of a model with several grids [n, tokens] alone.
/// Throws UserError naming the file, and the position of an index outside the codebook.
torch::Tensor read_bare_tokens(const std::string& name, const InferenceSession& session);

/// Whether `name` is one for read_bare_tokens rather than a folder of `nsvq tokenize`.
bool names_bare_tokens(const std::string& name);

/// Decodes such tokens from index `done` on, in batches. Passes images [B, 3, H, W] on the CPU
/// to `use`, with the index of the first.
void decode_bare_tokens(InferenceSession& session, const torch::Tensor& tokens, int64_t batch_size,
                        int64_t done,
                        const std::function<void(const torch::Tensor&, int64_t first)>& use);

/// The integers of a .npy or .safetensors file for read_bare_tokens, of any shape, as they are
/// stored. Throws UserError naming the file.
torch::Tensor read_token_numbers(const std::string& name);

}  // namespace nsvq
