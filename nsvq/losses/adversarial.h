#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <string>
#include <vector>

#include "nsvq/nn/model_config.h"
#include "nsvq/settings/option.h"

namespace nsvq {

/// Settings adversarial.*; the base has those that networks share.
struct AdversarialConfig : DiscriminatorConfig {
  std::string network = "patch";
  double weight = 0;
  bool adaptive = false;
  double least_ratio = 0;
  double most_ratio = 1e4;
  int64_t start_step = 0;
  std::string generator_loss = "non_saturating";
  std::string discriminator_loss = "hinge";
  double lecam = 0;
  double r1 = 0;
  int64_t r1_every = 16;
  std::vector<std::string> augment = {"none"};
  double target_hinge = 0;
};

/// Rows of adversarial.*, the network's last.
std::vector<Option> adversarial_options(AdversarialConfig& config);

/// Defaults that depend on the network and on the images' size, as "key=value".
std::vector<std::string> adversarial_defaults(const AdversarialConfig& config, int64_t size);

/// Throws UserError for settings that contradict each other.
void check_adversarial(const AdversarialConfig& config);

/// The generator's adversarial loss, from the discriminator's logits [B, 1, h, w] on
/// reconstructions (high for real):
///   non_saturating  mean over images of softplus(-m), with m the mean logit of an image
///   hinge           minus the mean logit
/// `kind` is the setting adversarial.generator_loss; throws UserError for an unknown one.
torch::Tensor generator_loss(const std::string& kind, const torch::Tensor& fake_logits);

/// The discriminator's loss, from its logits [B, 1, h, w] on images and on reconstructions:
///   hinge    (mean relu(1 - real) + mean relu(1 + fake)) / 2
///   vanilla  (mean softplus(-real) + mean softplus(fake)) / 2
/// `kind` is the setting adversarial.discriminator_loss; throws UserError for an unknown one.
torch::Tensor discriminator_loss(const std::string& kind, const torch::Tensor& real_logits,
                                 const torch::Tensor& fake_logits);

/// LeCAM, a regulariser of the discriminator: it penalises logits on images above the running mean
/// on reconstructions, and logits on reconstructions below the running mean on images.
///
/// The running means are buffers that start at 0, without bias correction, with decay 0.999. In
/// each step call `update`, then `penalty`, with that step's logits, as SEED-Voken does.
class Lecam : public torch::nn::Module {
 public:
  Lecam();

  /// Moves the running means towards the mean logits. A non-finite mean leaves its running mean
  /// unchanged, so that a skipped step does not spoil the run. In distributed training pass means
  /// that were all-reduced, so that ranks agree.
  void update(const torch::Tensor& real_logits, const torch::Tensor& fake_logits);

  /// mean relu(real - running fake)^2 + mean relu(running real - fake)^2
  torch::Tensor penalty(const torch::Tensor& real_logits, const torch::Tensor& fake_logits) const;

 private:
  // Scalars; fp64, because a step moves them by a thousandth only.
  torch::Tensor ema_real_, ema_fake_;
};

/// R1 (Mescheder et al. 2018): half the mean over images [B, 3, H, W] of the squared L2 norm of
/// d m / d image, with m the mean of an image's logits [B, 1, h, w]. `images`, a leaf that requires
/// a gradient, gave the logits. The penalty has gradients for the discriminator's weights, so its
/// layers need second derivatives. `scale` is that of adaptive_weight.
torch::Tensor r1_penalty(const torch::Tensor& images, const torch::Tensor& logits,
                         const torch::Tensor& scale = {});

struct RatioBounds {
  double least = 0, most = 1e4;
};

/// taming-transformers' adaptive weight of the adversarial loss: the ratio of gradient norms at the
/// decoder's last weight, |d reconstruction| / (|d adversarial| + 1e-4), within `bounds` (theirs: 0
/// and 1e4); a detached scalar. The losses' graphs are retained and no `.grad()` is changed.
/// `scale`, the loss scale of fp16 (a scalar, or undefined), multiplies both losses before
/// differentiation and is divided out of the norms.
torch::Tensor adaptive_weight(const torch::Tensor& reconstruction_loss,
                              const torch::Tensor& adversarial_loss,
                              const torch::Tensor& last_layer, const RatioBounds& bounds,
                              const torch::Tensor& scale = {});

}  // namespace nsvq
