#pragma once

#include <torch/types.h>

#include <functional>
#include <string>

#include "nsvq/tokenizer/inference_session.h"

namespace nsvq {

/// Reads tokens without a manifest, such as samples of a generative model, as [n, h, w] int64.
/// `name` is a .npy file, a .safetensors file with one integer tensor (or one called tokens), or
/// "-" for raw little-endian int32 on standard input. Shapes are [n, h, w], or [n, h * w] with the
/// model's own h and w, also for raw numbers. Throws UserError naming the file, and the position of
/// an index outside the codebook.
torch::Tensor read_bare_tokens(const std::string& name, const InferenceSession& session);

/// Whether `name` is one for read_bare_tokens rather than a folder of `nsvq tokenize`.
bool names_bare_tokens(const std::string& name);

/// Decodes tokens [n, h, w] from index `done` on, in batches. Passes images [B, 3, H, W] on the CPU
/// to `use`, with the index of the first.
void decode_bare_tokens(InferenceSession& session, const torch::Tensor& tokens, int64_t batch_size,
                        int64_t done,
                        const std::function<void(const torch::Tensor&, int64_t first)>& use);

}  // namespace nsvq
