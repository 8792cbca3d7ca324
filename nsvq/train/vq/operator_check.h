#pragma once

#include <torch/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "nsvq/quantizers/quantizer.h"
#include "nsvq/quantizers/quantizer_config.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/tokenizer/tokenizer.h"
#include "nsvq/train/run_observer.h"
#include "nsvq/train/vq/objective.h"
#include "nsvq/train/vq/phase_schedule.h"

namespace nsvq {

/// What one path of a quantizer made of latents [N, d].
struct PathResult {
  torch::Tensor indices;          ///< [N] int64
  torch::Tensor loss;             ///< scalar
  torch::Tensor latent_gradient;  ///< [N, d]
  /// All parameters' gradients in one vector; undefined if there are no parameters.
  torch::Tensor codebook_gradient;
};

/// How far the fast path is from the plain one, each figure 0 where they are equal:
///   index_mismatch           share of latents with another index; absent without tokens
///   code_distance_gap        largest relative difference, among those, of the squared distances to
///                            the two codes: near 0 for a tie. Absent without `codes` [K, d]
///   loss_error               relative
///   latent_gradient_error    relative, in the L2 norm
///   codebook_gradient_error  relative, in the L2 norm; absent without parameters
std::map<std::string, double> path_errors(const PathResult& fast, const PathResult& plain,
                                          const torch::Tensor& latents, const torch::Tensor& codes);

/// Whether such errors are no larger than rounding in fp32 explains.
bool operators_agree(const std::map<std::string, double>& errors);

/// Runs a quantizer on live latents by its fast path and by the plain operators that the fast ones
/// are tested against (train.check). Works on two copies of the quantizer, into which the live
/// weights are copied at each comparison, and draws nothing from torch's global generator, so that
/// training is, bit for bit, what it would be without.
class OperatorCheck {
 public:
  /// Throws UserError if quantizer.operators is plain: there is nothing to compare.
  OperatorCheck(const QuantizerConfig& config, int64_t latent_dim, c10::Device device);

  /// The errors on at most 2,048 of latents [B, d, h, w]: the plain NS loss holds the matrix of
  /// their distances to all codes.
  std::map<std::string, double> compare(const Quantizer& live, const torch::Tensor& latents,
                                        const QuantizerStep& step);

 private:
  std::shared_ptr<Quantizer> fast_, plain_;
};

/// Compares both paths every train.check steps on latents of the step's batch. Nothing of the model
/// changes.
class OperatorMonitor : public RunObserver {
 public:
  /// What is passed by reference outlives it.
  OperatorMonitor(const TokenizerConfig& config, Tokenizer& model, const Objective& objective,
                  const PhaseSchedule& schedule, c10::Device device);

  int64_t every_steps() const override { return check_ ? every_steps_ : 0; }
  void after_step(Journal& journal, const TensorBatch& batch) override;

 private:
  int64_t every_steps_;
  Tokenizer& model_;
  const Objective& objective_;
  const PhaseSchedule& schedule_;
  c10::Device device_;
  std::optional<OperatorCheck> check_;  ///< if train.check asks for it
};

}  // namespace nsvq
