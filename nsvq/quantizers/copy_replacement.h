#pragma once

#include "nsvq/quantizers/replacement.h"

namespace nsvq {

struct CopyReplacementConfig {
  int64_t exempt_epochs = 5;
  double sigma = 0.001;
  std::string source = "usage";
};

/// The paper's codebook replacement: after an epoch, every code used less often than
/// replacement.threshold is overwritten by a copy of an active one, drawn in proportion to usage
/// ("usage") or the most used one ("most_used"), plus N(0, sigma^2). The first `exempt_epochs` are
/// left alone, and so is a codebook without an active code.
class CopyReplacement : public Replacement {
 public:
  explicit CopyReplacement(const ReplacementConfig& config)
      : threshold_(config.threshold), settings_(config.of<CopyReplacementConfig>()) {}

  torch::Tensor after_epoch(torch::Tensor codebook, const torch::Tensor& usage, int64_t epoch,
                            uint64_t seed) override;

 private:
  double threshold_;
  CopyReplacementConfig settings_;
};

ReplacementKind copy_replacement_kind();

}  // namespace nsvq
