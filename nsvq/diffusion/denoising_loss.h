#pragma once

#include <torch/types.h>

#include "nsvq/diffusion/config.h"
#include "nsvq/diffusion/diffusion_model.h"

namespace nsvq {

/// The loss of latent diffusion: noise of a random time is added to latents, and the network is to
/// find it. Runs without a host synchronisation.
class DenoisingLoss {
 public:
  DenoisingLoss(const DiffusionConfig& config, c10::Device device);

  /// Latents as the model normalised them, with their classes.
  struct Images {
    torch::Tensor latents;  ///< [B, d, h, w]
    torch::Tensor labels;   ///< [B] int64; undefined without classes
    torch::Tensor seeds;    ///< [B] int64, from which time, noise and dropped label follow
  };
  enum class Labels { dropped, kept };
  /// [B], the weighted squared error of each image. A share of the labels is dropped in training.
  torch::Tensor operator()(DiffusionModel& model, const Images& images, Labels labels) const;

 private:
  torch::Tensor shown_labels(const Images& images, Labels labels) const;

  DiffusionConfig config_;
  const PredictionKind& prediction_;
  const WeightingKind& weighting_;
  torch::Tensor signal_, noise_;  ///< [times] fp32
};

}  // namespace nsvq
