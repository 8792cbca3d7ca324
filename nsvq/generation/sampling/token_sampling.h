#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "nsvq/generation/generator.h"

namespace nsvq {

// How tokens are drawn from logits. Nothing here synchronises with the host, so that a CUDA graph
// can hold it.

/// How the weight of the class changes over the steps of sampling; token_sampling.cpp has them all.
struct GuidanceSchedule {
  std::string name;     ///< in recipes, sampling.guidance_schedule
  std::string summary;  ///< in a line
  /// The weight at step `step` of `steps`.
  double (*weight)(const SamplingConfig& sampling, int64_t step, int64_t steps);
};

const std::vector<GuidanceSchedule>& guidance_schedules();

/// Weights [steps] fp32.
torch::Tensor guidance_weights(const SamplingConfig& sampling, int64_t steps, c10::Device device);

/// The upper half of `both` [2N, ...] is with the class (c), the lower half without it (u):
/// u + weight (c - u) [N, ...].
torch::Tensor guided(const torch::Tensor& both, const torch::Tensor& weight);

/// New seeds of the shape to which `seeds` and `numbers` (int64 both) broadcast: a hash of the two.
torch::Tensor numbered_seeds(const torch::Tensor& seeds, const torch::Tensor& numbers);

/// Standard Gumbel noise [N, count] fp32 of seeds [N], finite.
torch::Tensor gumbel_rows(const torch::Tensor& seeds, int64_t count);

/// Logits [N, K] over the temperature, -inf where top_k and then top_p leave a code out. Equal
/// logits at the edge of top_k all stay.
torch::Tensor filtered_logits(torch::Tensor logits, const SamplingConfig& sampling);

/// Draws from the softmax of logits [N, K] by noise of seeds [N]: [N] int64.
torch::Tensor drawn_codes(const torch::Tensor& logits, const torch::Tensor& seeds);

}  // namespace nsvq
