#pragma once

#include "nsvq/losses/loss.h"

namespace nsvq {

struct L1LossConfig {
  double weight = 1;
};

struct L2LossConfig {
  double weight = 0;
};

/// Mean absolute difference.
class L1Loss : public Loss {
 public:
  torch::Tensor operator()(const torch::Tensor& reconstructions,
                           const torch::Tensor& images) override {
    return at::l1_loss(reconstructions, images);
  }
};

/// Mean squared difference.
class L2Loss : public Loss {
 public:
  torch::Tensor operator()(const torch::Tensor& reconstructions,
                           const torch::Tensor& images) override {
    return at::mse_loss(reconstructions, images);
  }
};

/// Mean squared difference of the colours alone: of each channel less the mean of the three.
/// Colours vary less than brightness and are learnt only after it where both count alike.
struct ChromaLossConfig {
  double weight = 0;
};

class ChromaLoss : public Loss {
 public:
  torch::Tensor operator()(const torch::Tensor& reconstructions,
                           const torch::Tensor& images) override {
    const auto error = reconstructions - images;
    return (error - error.mean(1, /*keepdim=*/true)).square().mean();
  }
};

LossKind l1_loss_kind();
LossKind l2_loss_kind();
LossKind chroma_loss_kind();

}  // namespace nsvq
