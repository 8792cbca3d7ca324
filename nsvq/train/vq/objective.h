#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "nsvq/losses/loss.h"
#include "nsvq/quantizers/quantizer.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/tokenizer/tokenizer.h"
#include "nsvq/train/steps/step_runner.h"
#include "nsvq/train/vq/adversary.h"
#include "nsvq/train/vq/phase.h"

namespace nsvq {

/// One of the passes into which a step's batch is sliced (train.accumulate).
struct SlicePass {
  int64_t number = 0, count = 1;
  bool last() const { return number + 1 == count; }
};

/// The losses of the paper's section 4, both the generator's and the discriminator's.
class Objective {
 public:
  /// `model` outlives the objective.
  Objective(const TokenizerConfig& config, Tokenizer& model, c10::Device device,
            std::shared_ptr<Group> group);

  /// What the quantizer is asked for in a phase: the terms of L_vq, by the step's random numbers.
  QuantizerStep quantizer_terms(const Phase& phase, const StepInputs& inputs,
                                const SlicePass& pass = {}) const;
  /// What the decoder is given for latents [B, d, h, w] in a phase, with L_vq; a frozen quantizer
  /// has none.
  Quantized quantize(const torch::Tensor& latents, const Phase& phase, const StepInputs& inputs,
                     const SlicePass& pass) const;
  /// L_rec + lambda_perc L_perc for images and reconstructions [B, 3, H, W]: the terms of loss.*
  /// that compare them, each added to `scalars`.
  torch::Tensor compare(const torch::Tensor& images, const torch::Tensor& reconstructions,
                        Scalars& scalars) const;
  /// L of the phase for images and reconstructions [B, 3, H, W]; its terms are added to `scalars`.
  torch::Tensor generator(const torch::Tensor& images, const torch::Tensor& reconstructions,
                          const Quantized& quantized, const Step& step, const SlicePass& pass,
                          Scalars& scalars);
  /// The discriminator's loss, in adversarial steps; its terms are added to `scalars`.
  torch::Tensor discriminator(const torch::Tensor& images, const torch::Tensor& reconstructions,
                              const Step& step, const SlicePass& pass, Scalars& scalars);

  /// Null without an adversarial loss (adversarial.weight is 0).
  Adversary* adversary() { return adversary_ ? &*adversary_ : nullptr; }
  const Adversary* adversary() const { return adversary_ ? &*adversary_ : nullptr; }

 private:
  int64_t part_of(const SlicePass& pass) const;

  Tokenizer& model_;
  c10::Device device_;
  std::shared_ptr<Group> group_;
  double vq_weight_;     ///< lambda_vq
  bool shared_entropy_;  ///< entropies are those of all ranks' latents (dist.entropy)
  std::vector<WeightedLoss> losses_;
  std::optional<Adversary> adversary_;
};

}  // namespace nsvq
