#pragma once

#include <torch/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "nsvq/tokenizer/open_model.h"

namespace nsvq {

/// The latents of a trained tokenizer, which stays as it is: what diffusion learns, and the way
/// back to images.
class LatentSpace {
 public:
  /// `latents` is what diffusion.latents names: encoder or codes. Throws UserError for a tokenizer
  /// without codes where they are asked for.
  LatentSpace(LoadedModel model, const std::string& latents, c10::Device device);

  /// Images [B, 3, H, W] to latents [B, d, h, w] in fp32, without gradients and without a host
  /// synchronisation.
  torch::Tensor encode(const torch::Tensor& images);
  /// The encoder's output for images, which is to be finite whatever is learned.
  torch::Tensor encoder_output(const torch::Tensor& images);
  /// Tokens [B, h, w] to the latents of their codes, as `encode` gives them for images where
  /// diffusion.latents is codes.
  torch::Tensor from_tokens(const torch::Tensor& tokens);
  /// Latents are quantised, unless that is not wanted, and decoded. Throws if one is non-finite.
  torch::Tensor decode(const torch::Tensor& latents, bool quantise = true);

  bool of_codes() const { return codes_; }
  int64_t channels() const { return model_.config.model.latent_dim; }
  /// [d, h, w] of the latents of a square image. Throws UserError, naming data.size, if its side is
  /// no multiple of the tokenizer's stride or gives a grid that is none of the U-Net's.
  std::vector<int64_t> shape(int64_t size, int64_t unet_stride) const;

  /// sha256 of the tokenizer; stored in every diffusion model trained on it.
  const std::string& sha256() const { return sha256_; }
  const LoadedModel& model() const { return model_; }

 private:
  LoadedModel model_;
  bool codes_;
  std::string sha256_;
};

/// The tokenizer that diffusion.tokenizer names, for this machine. Throws UserError naming the key.
LoadedModel load_tokenizer(const std::string& path);

/// Mean and standard deviation per channel [d], gathered over batches in fp64.
class LatentStatistics {
 public:
  LatentStatistics(int64_t channels, c10::Device device);
  /// Latents [B, d, h, w].
  void add(const torch::Tensor& latents);
  /// Everything gathered, to be summed over ranks in place.
  torch::Tensor sums() { return sums_; }
  torch::Tensor mean() const;
  /// 1 for a channel that does not vary.
  torch::Tensor deviation() const;

 private:
  torch::Tensor sums_;  ///< [3, d]: number, sum and sum of squares
};

}  // namespace nsvq
