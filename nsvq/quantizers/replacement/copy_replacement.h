#pragma once

#include "nsvq/quantizers/replacement/replacement.h"

namespace nsvq {

struct CopyReplacementConfig {
  int64_t exempt_epochs = 5;
  int64_t exempt_steps = 0;
  double sigma = 0.001;
  std::string source = "usage";
};

/// The paper's codebook replacement: after a window, in the paper an epoch, every code used less
/// often than replacement.threshold is overwritten by a copy of an active one, drawn in proportion
/// to usage
/// ("usage") or the most used one ("most_used"), plus N(0, sigma^2). The first
/// `exempt_epochs` (`exempt_steps` where windows are steps) are left alone, and so is a codebook
/// without an active code.
class CopyReplacement : public Replacement {
 public:
  explicit CopyReplacement(const ReplacementConfig& config)
      : every_steps_(config.every_steps),
        threshold_(config.threshold),
        settings_(config.of<CopyReplacementConfig>()) {}

  torch::Tensor after_window(torch::Tensor codebook, const torch::Tensor& usage,
                             const WindowEnd& end, uint64_t seed) override;

 private:
  bool exempt(const WindowEnd& end) const;

  int64_t every_steps_;
  double threshold_;
  CopyReplacementConfig settings_;
};

ReplacementKind copy_replacement_kind();

}  // namespace nsvq
