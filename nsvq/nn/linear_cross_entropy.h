#pragma once

#include <torch/types.h>

#include <cstdint>

namespace nsvq {

/// Logits that a chunk of linear_cross_entropy holds; four times as many in bf16 on a GPU.
inline constexpr int64_t kLogitsAtOnce = int64_t{1} << 26;

/// What the gradients of the losses of linear_cross_entropy will be: any, or the same number for
/// all rows, as for their mean. Then the backward pass makes no logits; it takes the
/// first row's gradient for all.
enum class RowGradients { any, equal };

/// Cross-entropy [N] of the classes `targets` [N] int64 by the logits x weight^T + bias, x [N, d],
/// weight [K, d], bias [K] or undefined; in fp32 at least. The logits are made for some rows at a
/// time, and with gradients of any size once more in the backward pass, so that there is never a
/// matrix [N, K]. Under autocast products are in its type, sums and exponentials in fp32. In bf16
/// on a GPU the logits become their gradients where they lie
/// (nsvq/ops/transformer/cross_entropy_rows.h). Without a host synchronisation.
torch::Tensor linear_cross_entropy(const torch::Tensor& x, const torch::Tensor& weight,
                                   const torch::Tensor& bias, const torch::Tensor& targets,
                                   RowGradients rows = RowGradients::any,
                                   int64_t logits_at_once = kLogitsAtOnce);

}  // namespace nsvq
