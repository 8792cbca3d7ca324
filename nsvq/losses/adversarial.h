#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <string>
#include <vector>

#include "nsvq/core/config.h"
#include "nsvq/core/option.h"

namespace nsvq {

/// Settings adversarial.* but those of the discriminator's network (nsvq/nn/options.h).
std::vector<Option> adversarial_options(AdversarialConfig& config);

/// What reconstructions pay for logits [B, 1, h, w] of a discriminator (high: taken for real):
///   non_saturating  mean over images of softplus(-m), m the mean logit of an image
///   hinge           minus the mean logit
/// `kind` is adversarial.generator_loss; UserError if it is none of these.
torch::Tensor generator_loss(const std::string& kind, const torch::Tensor& fake_logits);

/// What the discriminator pays for its logits on images and on reconstructions:
///   hinge    (mean relu(1 - real) + mean relu(1 + fake)) / 2
///   vanilla  (mean softplus(-real) + mean softplus(fake)) / 2
/// `kind` is adversarial.discriminator_loss; UserError if it is none of these.
torch::Tensor discriminator_loss(const std::string& kind, const torch::Tensor& real_logits,
                                 const torch::Tensor& fake_logits);

/// LeCAM, a regulariser of the discriminator: it pays for logits on images above the running mean
/// on reconstructions, and for logits on reconstructions below the running mean on images.
///
/// The running means are buffers, start at 0 without correction, and have decay 0.999. Call
/// `update`, then `penalty`, with the logits of the same step, as SEED-Voken does.
class Lecam : public torch::nn::Module {
 public:
  Lecam();

  /// Moves the running means by the mean logits. A mean that is not finite leaves its running mean
  /// where it was, so that a skipped step does not end the run. Processes that train together stay
  /// together if each gives the means over all of them.
  void update(const torch::Tensor& real_logits, const torch::Tensor& fake_logits);

  /// mean relu(real - running fake)^2 + mean relu(running real - fake)^2
  torch::Tensor penalty(const torch::Tensor& real_logits, const torch::Tensor& fake_logits) const;

 private:
  torch::Tensor ema_real_, ema_fake_;  // scalars, fp64: a step changes them by a thousandth
};

/// Taming-transformers' weight of the adversarial loss: the ratio of the gradients' norms at the
/// decoder's last weight, |d reconstruction| / (|d adversarial| + 1e-4), within [0, 1e4]. Without
/// gradient; both losses can still be differentiated, and no `.grad()` is touched.
/// `scale`, a scalar or undefined, multiplies both losses on the way, for gradients in fp16, and
/// changes nothing else.
torch::Tensor adaptive_weight(const torch::Tensor& reconstruction_loss,
                              const torch::Tensor& adversarial_loss,
                              const torch::Tensor& last_layer, const torch::Tensor& scale = {});

}  // namespace nsvq
