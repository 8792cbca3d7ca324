#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "nsvq/diffusion/diffusion_model.h"
#include "nsvq/diffusion/prediction.h"
#include "nsvq/diffusion/sampler.h"
#include "nsvq/train/steps/cuda_graph.h"

namespace nsvq {

/// A network's output for noisy data [B, ...] at times [B], int64 on the same device.
using Denoiser =
    std::function<torch::Tensor(const torch::Tensor& noisy, const torch::Tensor& times)>;
/// Standard normal noise [B, ...]; number 0 is what sampling starts from, 1, 2, ... are fresh.
using NoiseDraws = std::function<torch::Tensor(int64_t number)>;

/// Samples in progress, in the type and on the device of what they start from.
class LatentSampling {
 public:
  LatentSampling(std::vector<SamplerStep> steps, const PredictionKind& prediction,
                 torch::Tensor start);

  int64_t steps() const { return std::ssize(steps_); }
  int64_t done() const { return done_; }
  /// The next step.
  void step(const Denoiser& denoiser, const NoiseDraws& noise);
  /// The samples after the steps that are done.
  const torch::Tensor& samples() const { return samples_; }

 private:
  std::vector<SamplerStep> steps_;
  const PredictionKind& prediction_;
  int64_t done_ = 0;
  torch::Tensor samples_, data_before_;
};

/// All steps that are left, without gradients.
torch::Tensor sample_latents(LatentSampling sampling, const Denoiser& denoiser,
                             const NoiseDraws& noise);

/// Standard normal noise of images: a number depends on the seed, the image's index, the draw and
/// its position in the image alone, so that image i of a seed is the same in every batch and on
/// every rank.
class ImageNoise {
 public:
  /// `shape` [C, h, w] of one image; noise comes on `device`.
  ImageNoise(int64_t seed, const std::vector<int64_t>& indices, std::vector<int64_t> shape,
             c10::Device device);

  /// [images, C, h, w] fp32; another `draw` is independent of it.
  torch::Tensor draw(int64_t draw) const;

 private:
  torch::Tensor seeds_;  ///< [images] int64
  std::vector<int64_t> shape_;
};

/// Which images to sample. Image i of a seed is the same in every batch.
struct SampleRequest {
  int64_t seed = 0;
  std::vector<int64_t> indices;  ///< numbers of the images
  std::vector<int64_t> labels;   ///< a class each; empty: none is told
  std::function<void()> before_step = [] {};
  bool quantise = true;  ///< latents, before they are decoded
};

/// Latents of images, to which noise is added and removed again.
struct DenoiseRequest {
  torch::Tensor latents;  ///< [images, d, h, w], as the tokenizer has them
  int64_t time = 0;       ///< sampling begins at the first of its times that is not later
};

/// Samples a model's latents.
class LatentSampler {
 public:
  /// `shape` [d, h, w] of an image's latents. With `graphs`, on a GPU within a SideStreamGuard, the
  /// network runs as a CUDA graph. Throws UserError for settings that do not fit the model.
  LatentSampler(DiffusionModel model, const DiffusionConfig& config, std::vector<int64_t> shape,
                c10::Device device, bool graphs = false);

  /// [images, d, h, w], as the tokenizer has them (not normalised).
  torch::Tensor sample(const SampleRequest& request);
  /// What sampling makes of latents with noise; `request` has their numbers and classes.
  torch::Tensor denoise(const SampleRequest& request, const DenoiseRequest& noised);

 private:
  torch::Tensor run(LatentSampling sampling, const SampleRequest& request, const NoiseDraws& noise);
  NoiseDraws draws(const SampleRequest& request) const;
  Denoiser denoiser_for(const std::vector<int64_t>& labels);
  torch::Tensor network(const torch::Tensor& noisy, const torch::Tensor& times,
                        const torch::Tensor& labels);

  DiffusionModel model_;
  DiffusionConfig config_;
  std::vector<SamplerStep> steps_;
  std::vector<int64_t> shape_;
  c10::Device device_;
  StepGraph graph_;
  torch::Tensor output_;  ///< of the network; a graph writes it anew
};

}  // namespace nsvq
