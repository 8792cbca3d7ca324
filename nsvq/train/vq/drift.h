#pragma once

#include <torch/types.h>

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "nsvq/core/tensor_map.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/tokenizer/tokenizer.h"
#include "nsvq/train/run_observer.h"
#include "nsvq/train/vq/validation.h"

namespace nsvq {

/// Encoder drift and assignment churn between consecutive measurements on a fixed set of images:
///
///   drift = sqrt(E_{x,u}[ |E_t(x)_u - E_{t-1}(x)_u|^2 / d ])   (the paper's D_RMS)
///   churn = E_{x,u}[ q_t(x)_u != q_{t-1}(x)_u ]
///
/// A measurement neither draws random numbers nor changes the model.
class DriftMeter {
 public:
  /// images [n, 3, H, W] on the model's device; `tau` is the NS loss's temperature.
  DriftMeter(torch::Tensor images, int64_t batch_size, double tau);

  /// drift and churn since the last measurement (absent at the first), latent_norm (mean L2 norm),
  /// quantization_error (RMS per element of z - c), neighbours (mean effective number of
  /// neighbours) and centroid_distance (RMS per element of c minus the mean of its latents), both
  /// absent without a codebook; for a model without tokens drift and latent_norm alone.
  /// With non-finite latents only latent_norm = NaN; the next measurement then compares with the
  /// last finite one.
  std::map<std::string, double> measure(Tokenizer& model);

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
};

/// Measures drift on images of data.val at the start and every drift.every_steps steps or, if that
/// is 0, epochs.
class DriftMonitor : public RunObserver {
 public:
  /// Measures nothing if drift.images is 0. `model` outlives it.
  DriftMonitor(const TokenizerConfig& config, const Validation& validation, Tokenizer& model,
               c10::Device device);

  void begin(Journal& journal) override { measure(journal); }
  int64_t every_steps() const override { return meter_ ? every_steps_ : 0; }
  void after_step(Journal& journal, const TensorBatch& /*batch*/) override { measure(journal); }
  void end_epoch(Journal& journal, EpochLine& line) override;

  /// A figure of the last measurement, NaN if it had none of this name.
  double last(const std::string& name) const;
  /// The commitment loss on the images, for schedule.commitment = validation.
  double commitment() const { return meter_->commitment(model_); }

  /// For checkpoints: what the next measurement compares with, and key drift.
  TensorMap state() const { return meter_ ? meter_->state() : TensorMap(); }
  void load(const TensorMap& state, const std::string& from);
  nlohmann::json to_json() const;
  /// Throws json::exception for what no monitor has written.
  void from_json(const nlohmann::json& all);

 private:
  void measure(Journal& journal);

  Tokenizer& model_;
  int64_t every_steps_;
  std::optional<DriftMeter> meter_;
  std::map<std::string, double> values_;  ///< of the last measurement
};

/// At most `most` rows of [N, d], evenly spread. Every k-th one, k odd, so that rows of a grid of
/// latents are not all of one column.
torch::Tensor spread_rows(const torch::Tensor& rows, int64_t most);

}  // namespace nsvq
