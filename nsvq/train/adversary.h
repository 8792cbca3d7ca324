#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "nsvq/core/config.h"
#include "nsvq/losses/adversarial.h"
#include "nsvq/nn/discriminator.h"
#include "nsvq/train/adam.h"
#include "nsvq/train/loss_scale.h"
#include "nsvq/train/meter.h"

namespace nsvq {

/// The discriminator with its optimizer and regulariser. Neither side's gradients reach the other:
/// the generator's term sees the discriminator's weights as constants, and in the discriminator's
/// loss reconstructions are detached.
class Adversary {
 public:
  /// Throws UserError if images of this size leave no patch to judge.
  Adversary(const Config& config, c10::Device device);

  /// What the generator minimises.
  torch::Tensor generator_term(const torch::Tensor& reconstructions);
  /// The term's weight in the generator's objective at `share` of the adversarial training, a
  /// scalar: fixed, or relative to the gradient of the `reconstruction` loss at the decoder's last
  /// layer.
  torch::Tensor weight(const torch::Tensor& share, const torch::Tensor& reconstruction,
                       const torch::Tensor& term, const torch::Tensor& last_layer,
                       const LossScale& scale) const;

  /// Gradients of `share` times the discriminator's loss; returns its terms.
  Scalars backward(const torch::Tensor& images, const torch::Tensor& reconstructions,
                   const torch::Tensor& share, const LossScale& scale);
  /// Buffers that `backward` changes.
  std::vector<torch::Tensor> statistics() const;

  /// Weights, statistics and moments, for checkpoints.
  TensorMap state() const;
  /// Throws UserError calling the state's origin `from`.
  void load(const TensorMap& state, const std::string& from);
  const torch::nn::Module& module() const { return *discriminator_; }
  Adam& optimizer() { return optimizer_; }

 private:
  /// Logits in fp32.
  torch::Tensor judge(const torch::Tensor& images);

  AdversarialConfig config_;
  Precision precision_;
  c10::Device device_;
  Discriminator discriminator_;
  std::shared_ptr<Lecam> lecam_;
  Adam optimizer_;
};

}  // namespace nsvq
