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

/// Mean absolute difference of the colours alone: of (red - blue) / 2 and of 1.2 times
/// green - (red + blue) / 2, which varies less. Under a squared or common difference colours, which
/// vary less than brightness, are learnt long after it.
struct ChromaLossConfig {
  double weight = 0;
};

class ChromaLoss : public Loss {
 public:
  torch::Tensor operator()(const torch::Tensor& reconstructions,
                           const torch::Tensor& images) override {
    const auto error = reconstructions - images;
    const auto red = error.select(1, 0), green = error.select(1, 1), blue = error.select(1, 2);
    return (red - blue).abs().mean() / 2 + 1.2 * (green - (red + blue) / 2).abs().mean();
  }
};

LossKind l1_loss_kind();
LossKind l2_loss_kind();
LossKind chroma_loss_kind();

}  // namespace nsvq
