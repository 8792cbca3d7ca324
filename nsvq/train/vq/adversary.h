#pragma once

#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "nsvq/dist/group.h"
#include "nsvq/losses/adversarial.h"
#include "nsvq/losses/augmentation.h"
#include "nsvq/losses/hinge_floor.h"
#include "nsvq/nn/discriminator_kinds.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/train/meter.h"
#include "nsvq/train/steps/adam.h"
#include "nsvq/train/steps/loss_scale.h"

namespace nsvq {

/// What random numbers for a pass of a step are drawn by.
struct PassDraws {
  torch::Tensor seed;  ///< StepInputs::noise_seed; undefined: nothing is random
  int64_t part = 0;  ///< number of the pass's images among the equal parts of all ranks and passes
};

/// The R1 penalty in a pass (adversarial.r1).
struct PenaltyPass {
  bool due = false;     ///< in steps that do not all have it (adversarial.r1_every)
  torch::Tensor scale;  ///< the loss scale, undefined without
};

/// The discriminator with its optimizer and regulariser. Neither side's gradients reach the other:
/// the generator's term sees the discriminator's weights as constants, and in the discriminator's
/// loss reconstructions are detached.
class Adversary {
 public:
  /// Throws UserError if the discriminator does not take images of data.size.
  Adversary(const TokenizerConfig& config, c10::Device device,
            std::shared_ptr<Group> group = nullptr);

  /// The generator's adversarial loss for reconstructions [B, 3, H, W], which are augmented by
  /// `draws` (adversarial.augment).
  torch::Tensor generator_term(const torch::Tensor& reconstructions, const PassDraws& draws = {});
  /// Weight of the generator's adversarial loss, a scalar: fixed or adaptive (by gradient norms at
  /// the decoder's last layer, nsvq/losses/adversarial.h), times the ramp factor `share`.
  torch::Tensor weight(const torch::Tensor& share, const torch::Tensor& reconstruction,
                       const torch::Tensor& term, const torch::Tensor& last_layer,
                       const LossScale& scale) const;

  /// The discriminator's loss on images and reconstructions [B, 3, H, W], augmented independently;
  /// its terms are added to `scalars`. Decides whether the optimizer's next step is held
  /// (adversarial.target_hinge).
  torch::Tensor objective(const torch::Tensor& images, const torch::Tensor& reconstructions,
                          Scalars& scalars, const PassDraws& draws = {},
                          const PenaltyPass& pass = {});
  /// Buffers that `objective` changes (batch norm, LeCAM and hinge statistics).
  std::vector<torch::Tensor> statistics() const;

  /// Weights, buffers and optimizer moments, for checkpoints.
  TensorMap state() const;
  /// Those that are equal on all ranks: without batch norms' buffers where running statistics are
  /// those of each rank's own images (dist.batch_norm).
  TensorMap shared_tensors() const;
  /// Throws UserError if the state does not fit; `from` names its origin in the message.
  void load(const TensorMap& state, const std::string& from);
  const torch::nn::Module& module() const { return *discriminator_; }
  Adam& optimizer() { return optimizer_; }

 private:
  /// Logits [B, 1, h, w] in fp32.
  torch::Tensor judge(const torch::Tensor& images);
  torch::Tensor prepared(const torch::Tensor& images, const PassDraws& draws, Judged judged) const;

  AdversarialConfig config_;
  bool shared_batch_norm_;  ///< statistics are those of all ranks' images
  Precision precision_;
  c10::Device device_;
  std::shared_ptr<DiscriminatorNetwork> discriminator_;
  std::shared_ptr<Group> group_;  ///< for running means; null: this process alone
  std::shared_ptr<Lecam> lecam_;
  std::shared_ptr<HingeFloor> floor_;  ///< null without adversarial.target_hinge
  Adam optimizer_;
};

/// Whether step number `step` has the R1 penalty while others have not.
bool has_rare_penalty(const AdversarialConfig& config, int64_t step);

/// Factor on the discriminator's learning rate in step `step` of a run of `steps` steps. Its
/// optimizer.discriminator_schedule counts from adversarial.start_step on; "same" is the
/// generator's factor.
double discriminator_lr_factor(const TokenizerConfig& config, int64_t step, int64_t steps);

}  // namespace nsvq
