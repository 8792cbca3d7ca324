#pragma once

#include <torch/types.h>

#include <string>

#include "nsvq/quantizers/quantizer_config.h"

namespace nsvq {

/// A fresh codebook [codes, dim]: "gaussian" is N(0, 1/dim), the scale at which the paper's tau =
/// 0.35 is neither flat nor one-hot; "uniform" is U(-1/codes, 1/codes), taming's; "normal" is
/// N(0, scale^2); "data" and "kmeans" start gaussian and are overwritten by codes_from_data, and
/// so does "model", for another model's codes.
torch::Tensor initial_codebook(const std::string& init, int64_t codes, int64_t dim,
                               double scale = 1);
/// The codebook of a recipe.
torch::Tensor initial_codebook(const QuantizerConfig& config, int64_t dim);

/// Overwrites the codebook's rows with latents [N, dim] drawn without replacement where N allows
/// it. Drawn twice, a latent gets a little noise, so that the copies can part.
void sample_codes(torch::Tensor codebook, const torch::Tensor& latents, uint64_t seed);

/// Whether a codebook of this `init` is made of latents before training, and of how many, if there
/// are so many.
bool starts_from_data(const std::string& init);
int64_t latents_for_codes(const std::string& init, int64_t codes);

/// Overwrites the codebook with latents [N, dim] ("data") or with their clusters ("kmeans").
void codes_from_data(torch::Tensor codebook, const torch::Tensor& latents, const std::string& init,
                     uint64_t seed);

/// [B, d, h, w] to [B * h * w, d].
torch::Tensor flatten_latents(const torch::Tensor& latents);

/// Indices [B * h * w] to [B, h, w], the grid of latents [B, d, h, w].
torch::Tensor to_grid(const torch::Tensor& indices, const torch::Tensor& latents);

/// Rows [B * h * w, d] to [B, d, h, w], the grid of latents [B, d, h, w].
torch::Tensor to_nchw(const torch::Tensor& rows, const torch::Tensor& latents);

/// Rows of the codebook [..., d] for indices [...].
torch::Tensor codes_of(const torch::Tensor& codebook, const torch::Tensor& indices);

/// Rows of the codebook for indices [B, h, w], as [B, d, h, w].
torch::Tensor look_up(const torch::Tensor& codebook, const torch::Tensor& indices);

}  // namespace nsvq
