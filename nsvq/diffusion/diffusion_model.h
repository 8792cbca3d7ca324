#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include "nsvq/diffusion/config.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/nn/named_tensors.h"
#include "nsvq/nn/unet.h"
#include "nsvq/tokenizer/frozen_tokenizer.h"

namespace nsvq {

/// The U-Net and the mean and standard deviation per channel of the latents that it is trained on.
struct DiffusionModelImpl : torch::nn::Module {
  /// For latents of so many channels, with fresh weights.
  DiffusionModelImpl(const DiffusionConfig& config, int64_t channels);

  /// Latents [B, d, h, w] to mean 0 and deviation 1, and back.
  torch::Tensor normalise(const torch::Tensor& latents) const;
  torch::Tensor restore(const torch::Tensor& normalised) const;

  Unet unet;
  torch::Tensor latent_mean, latent_deviation;  ///< buffers [d] fp32
};
TORCH_MODULE(DiffusionModel);

/// Moves a model to a device, in the memory format that is fast there, and sets its precision.
void move_to_device(DiffusionModel& model, const DiffusionConfig& config, c10::Device device);

/// A model as its file holds it. `metadata` is added to the file's own.
TensorFile diffusion_contents(const TensorMap& tensors, const DiffusionConfig& config,
                              const TokenizerReference& tokenizer,
                              const std::map<std::string, std::string>& metadata = {});

/// A model with the settings it was trained with, on the CPU.
struct LoadedDiffusion {
  DiffusionConfig config;
  DiffusionModel model{nullptr};
  TokenizerReference tokenizer;
  std::filesystem::path file;
};

/// Opens what a user names: a run's folder, a checkpoint folder, an exported folder or a model
/// file. Throws UserError, also for one that is a tokenizer's.
LoadedDiffusion load_diffusion(const std::filesystem::path& run_or_checkpoint);

/// Whether a model file is one of latent diffusion.
bool is_diffusion(const TensorFile& file);

/// The settings and the tokenizer that a model file's metadata hold. Throws UserError calling it
/// `from`.
std::pair<DiffusionConfig, TokenizerReference> diffusion_metadata(const TensorFile& file,
                                                                  const std::string& from);

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

  /// Errors of each image [B], at one time in place of a random one.
  struct Errors {
    torch::Tensor loss;  ///< the weighted squared error
    torch::Tensor data;  ///< mean squared error of the latents that the network sees in the noise
  };
  Errors at_time(DiffusionModel& model, const Images& images, int64_t time) const;

 private:
  /// What the network makes of latents with noise of a time each [B].
  struct Seen {
    torch::Tensor noise, noisy, output;
    NoiseLevel level;
  };
  Seen see(DiffusionModel& model, const Images& images, const torch::Tensor& times,
           const torch::Tensor& labels) const;
  torch::Tensor loss_of(const Seen& seen, const torch::Tensor& data) const;
  torch::Tensor shown_labels(const Images& images, Labels labels) const;

  DiffusionConfig config_;
  const PredictionKind& prediction_;
  const WeightingKind& weighting_;
  torch::Tensor signal_, noise_;  ///< [times] fp32
};

}  // namespace nsvq
