#pragma once

#include <torch/types.h>

#include "nsvq/core/config.h"

namespace nsvq {

/// The paper's codebook replacement: every code used less often than config.threshold is
/// overwritten by a copy of an active one, drawn in proportion to usage ("usage") or the most used
/// one ("most_used"), plus N(0, sigma^2). `usage` [K] counts an epoch over all ranks; equal seeds
/// give equal draws on every rank. Returns the rows that were overwritten; none if no code is
/// active.
torch::Tensor replace_dead_codes(torch::Tensor codebook, const torch::Tensor& usage,
                                 const ReplacementConfig& config, uint64_t seed);

}  // namespace nsvq
