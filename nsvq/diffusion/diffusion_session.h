#pragma once

#include <torch/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/core/precision.h"
#include "nsvq/diffusion/diffusion_model.h"
#include "nsvq/diffusion/latent_sampler.h"
#include "nsvq/diffusion/latent_space.h"
#include "nsvq/tokenizer/open_model.h"
#include "nsvq/train/steps/cuda_graph.h"

namespace nsvq {

/// A trained diffusion model with its tokenizer, in use: samples images. Sets torch's process-wide
/// flags as InferenceSession does, so one session is used at a time.
class DiffusionSession {
 public:
  /// The model's sample.* settings and guidance decide how it samples. Its tokenizer is `tokenizer`
  /// or, if that is empty, the one beside the model (an exported folder) or where the model found
  /// it in training; by its weights it must be the one of training. `threads` of torch's CPU
  /// operators; 0: as many as this process may use. Throws UserError.
  DiffusionSession(LoadedDiffusion model, const std::string& tokenizer, c10::Device device,
                   int64_t threads = 0);

  /// Images [images, 3, H, W] in [-1, 1] on the session's device. Throws RunError naming the first
  /// image that became non-finite.
  torch::Tensor sample(const SampleRequest& request);
  /// Images [images, 3, H, W] in [-1, 1] after noise of a time is added to their latents and
  /// removed again by sampling; `request` has their numbers and classes.
  torch::Tensor denoise(const SampleRequest& request, const torch::Tensor& images, int64_t time);

  /// What the network makes of the latents of images with noise of a time, which depends on their
  /// numbers as in an evaluation.
  DenoisingLoss::Errors errors(const SampleRequest& request, const torch::Tensor& images,
                               int64_t time);

  const DiffusionConfig& config() const { return model_.config; }
  /// sha256 over U-Net and tokenizer, on which images depend besides settings.
  std::string sha256() const;
  const LoadedDiffusion& model() const { return model_; }
  const LoadedModel& tokenizer() const { return latents_.model(); }
  c10::Device device() const { return device_; }

 private:
  LoadedDiffusion model_;
  c10::Device device_;
  TorchFlags flags_;
  SideStreamGuard stream_;
  AutocastCacheGuard cached_casts_;  ///< weights are cast once
  LatentSpace latents_;
  DenoisingLoss loss_;
  std::optional<LatentSampler> sampler_;

  torch::Tensor decode(const torch::Tensor& latents, const SampleRequest& request);
};

/// Writes a folder that samples by itself, whole or not at all:
///   model.safetensors                the network with the latents' mean and deviation
///   config.json                      its settings
///   tokenizer/model.safetensors      the tokenizer
///   tokenizer/config.json            its settings
///   scheduler/scheduler_config.json  the noise schedule, as diffusers names it
/// Throws UserError if the folder exists.
void export_diffusion(const LoadedDiffusion& model, const LoadedModel& tokenizer,
                      const std::filesystem::path& folder);

}  // namespace nsvq
