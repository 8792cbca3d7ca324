#pragma once

#include <torch/types.h>

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/core/tensor_map.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/tokenizer/tokenizer.h"
#include "nsvq/train/run_observer.h"
#include "nsvq/train/vq/objective.h"
#include "nsvq/train/vq/validation.h"

namespace nsvq {

/// Encoder drift and assignment churn between consecutive measurements on a fixed set of images:
///
///   drift = sqrt(E_{x,u}[ |E_t(x)_u - E_{t-1}(x)_u|^2 / d ])   (the paper's D_RMS)
///   churn = E_{x,u}[ q_t(x)_u != q_{t-1}(x)_u ]
///
/// and of the same latents how far they are from their codes and in how many directions they vary.
/// A measurement neither draws random numbers nor changes the model.
class DriftMeter {
 public:
  /// images [n, 3, H, W] on the model's device; `tau` is the NS loss's temperature.
  DriftMeter(torch::Tensor images, int64_t batch_size, double tau);

  /// By name:
  ///   drift, churn           since the last measurement, absent at the first
  ///   latent_norm            mean L2 norm
  ///   quantization_error     RMS per element of z - c
  ///   relative_drift, relative_quantization_error   both divided by the RMS of z's elements
  ///   neighbours             mean effective number of neighbours
  ///   centroid_distance      RMS per element of c minus the mean of its latents
  ///   latents_participation  participation ratio of the latents z
  ///   codes_participation    that of all codes, used or not, each counted once, as latents are
  ///                          compared with them (of SimVQ the projected ones)
  /// Those of codes are absent without a list of them, those of indices without tokens. With
  /// non-finite latents only latent_norm = NaN; the next measurement then compares with the last
  /// finite one.
  std::map<std::string, double> measure(Tokenizer& model);
  /// latents_spectrum and codes_spectrum of the last measurement: the largest shares.
  const std::map<std::string, std::vector<double>>& spectra() const { return spectra_; }

  /// Mean squared distance per element of the images' latents to their codes; NaN with non-finite
  /// latents. Later measurements do not notice it.
  double commitment(Tokenizer& model) const;

  /// Latents and indices that the next measurement compares with, for checkpoints; empty before the
  /// first.
  TensorMap state() const;
  /// Restores a state. If it is for another number or size of images it is ignored, and the next
  /// measurement has no drift and churn. Throws UserError, calling the run `from`, for one that no
  /// measurement has made.
  void load(const TensorMap& state, const std::string& from);

 private:
  torch::Tensor images_;
  int64_t batch_size_;
  double tau_;
  torch::Tensor latents_;  ///< [n, d, h, w] of the last measurement, undefined before the first
  torch::Tensor indices_;  ///< [n, h, w] of the last measurement, undefined before the first
  std::map<std::string, std::vector<double>> spectra_;
};

/// The gap of the straight-through estimator on images [n, 3, H, W]: with
/// g(v) the gradient of the terms of loss.* that compare images, without the adversarial one, at
/// vectors v that the decoder is given, z the latents and q their codes,
///   ste_gap = |g(q) - g(z)| / |g(z)|   and   ste_cosine, the cosine of both,
/// over all images together; NaN where z is not finite or a gradient is zero. Computed in fp32, one
/// image at a time. Leaves gradients, random numbers, autocast and the model alone.
std::map<std::string, double> straight_through_gap(Tokenizer& model, const Objective& objective,
                                                   const torch::Tensor& images);

/// Measures drift on images of data.val at the start and every drift.every_steps steps or, if that
/// is 0, epochs.
class DriftMonitor : public RunObserver {
 public:
  /// Measures nothing if drift.images is 0. `model` and `objective` outlive it.
  DriftMonitor(const TokenizerConfig& config, const Validation& validation, Tokenizer& model,
               const Objective& objective, c10::Device device);

  void begin(Journal& journal) override { measure(journal); }
  int64_t every_steps() const override { return meter_ ? every_steps_ : 0; }
  void after_step(Journal& journal, const TensorBatch& /*batch*/) override { measure(journal); }
  void end_epoch(Journal& journal, EpochLine& line) override;

  /// A figure of the last measurement, NaN if it had none of this name.
  double last(const std::string& name) const;
  /// The commitment loss on the images, for schedule.commitment = validation: rank 0's on all
  /// ranks, which must freeze their encoders at one step, however each rounds.
  double commitment(Group& group) const;

  /// For checkpoints: what the next measurement compares with, and key drift.
  TensorMap state() const { return meter_ ? meter_->state() : TensorMap(); }
  void load(const TensorMap& state, const std::string& from);
  nlohmann::json to_json() const;
  /// Throws json::exception for what no monitor has written.
  void from_json(const nlohmann::json& all);

 private:
  void measure(Journal& journal);

  Tokenizer& model_;
  const Objective& objective_;
  int64_t every_steps_;
  std::optional<DriftMeter> meter_;
  torch::Tensor gap_images_;              ///< undefined without drift.ste_gap
  std::map<std::string, double> values_;  ///< of the last measurement
};

/// At most `most` rows of [N, d], evenly spread. Every k-th one, k odd, so that rows of a grid of
/// latents are not all of one column.
torch::Tensor spread_rows(const torch::Tensor& rows, int64_t most);

}  // namespace nsvq
