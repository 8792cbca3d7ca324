#pragma once

#include "nsvq/quantizers/replacement.h"

namespace nsvq {

/// The paper's codebook replacement: after an epoch, every code used less often than
/// config.threshold is overwritten by a copy of an active one, drawn in proportion to usage
/// ("usage") or the most used one ("most_used"), plus N(0, sigma^2). The first config.exempt_epochs
/// are left alone, and so is a codebook without an active code.
class CopyReplacement : public Replacement {
 public:
  explicit CopyReplacement(ReplacementConfig config) : config_(std::move(config)) {}

  torch::Tensor after_epoch(torch::Tensor codebook, const torch::Tensor& usage, int64_t epoch,
                            uint64_t seed) override;

 private:
  ReplacementConfig config_;
};

}  // namespace nsvq
