#pragma once

#include <memory>
#include <string>
#include <utility>

#include "nsvq/losses/loss.h"
#include "nsvq/losses/lpips.h"

namespace nsvq {

struct PerceptualLossConfig {
  double weight = 0;
  std::string net = "vgg";
};

/// LPIPS, mean over the batch.
class PerceptualLoss : public Loss {
 public:
  explicit PerceptualLoss(std::shared_ptr<Lpips> lpips) : lpips_(std::move(lpips)) {}

  torch::Tensor operator()(const torch::Tensor& reconstructions,
                           const torch::Tensor& images) override {
    return lpips_->forward(reconstructions, images).mean();
  }

 private:
  std::shared_ptr<Lpips> lpips_;
};

LossKind perceptual_loss_kind();

}  // namespace nsvq
