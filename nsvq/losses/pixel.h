#pragma once

#include "nsvq/losses/loss.h"

namespace nsvq {

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
class ChromaLoss : public Loss {
 public:
  torch::Tensor operator()(const torch::Tensor& reconstructions,
                           const torch::Tensor& images) override {
    const auto error = reconstructions - images;
    return (error - error.mean(1, /*keepdim=*/true)).square().mean();
  }
};

}  // namespace nsvq
