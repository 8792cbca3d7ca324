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

LossKind l1_loss_kind();
LossKind l2_loss_kind();

}  // namespace nsvq
