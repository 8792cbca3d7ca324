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

}  // namespace nsvq
