#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <memory>
#include <string>

#include "nsvq/core/precision.h"
#include "nsvq/nn/autoencoder.h"
#include "nsvq/nn/named_tensors.h"
#include "nsvq/quantizers/quantizer.h"
#include "nsvq/recipe/tokenizer_config.h"

namespace nsvq {

/// Encoder, quantizer and decoder together: images to tokens and back.
struct TokenizerImpl : torch::nn::Module {
  explicit TokenizerImpl(const TokenizerConfig& config);

  /// Images [B, 3, H, W] in [-1, 1] to indices [B, h, w], or [B, n] of several grids (Quantizer).
  torch::Tensor encode(const torch::Tensor& images);
  /// Asynchronous encode: a non-finite latent gets index -1 on a GPU (see Quantizer).
  torch::Tensor encode_without_waiting(const torch::Tensor& images);
  /// Such indices to images [B, 3, H, W].
  torch::Tensor decode(const torch::Tensor& indices);

  /// Images through encoder, quantizer and decoder, without gradients, and the indices on
  /// the way ([B, 0, 0] without tokens). Throws if a latent has no nearest code.
  struct Reconstruction {
    torch::Tensor images, indices;
  };
  Reconstruction reconstruct(const torch::Tensor& images);
  /// Asynchronous reconstruct, with indices as encode_without_waiting gives them.
  Reconstruction reconstruct_without_waiting(const torch::Tensor& images);

  /// The encoder and the decoder alone, under autocast to `precision`, with gradients if they are
  /// enabled: images to latents [B, d, h, w] and back, both in fp32 at least.
  torch::Tensor to_latents(const torch::Tensor& images);
  torch::Tensor to_images(const torch::Tensor& latents);

  Precision precision = Precision::fp32;  ///< of encoder and decoder
  bool opponent_colors;                   ///< model.colors
  bool unit_range;                        ///< model.range
  Encoder encoder;
  std::shared_ptr<Quantizer> quantizer;
  Decoder decoder;
};
TORCH_MODULE(Tokenizer);

/// A tokenizer with fresh weights that depend on the recipe's seed alone, on `device`. Throws
/// UserError if the device lacks train.precision.
Tokenizer make_tokenizer(const TokenizerConfig& config, c10::Device device);

/// A copy for the averages of its weights, to be filled; draws nothing from the process's seed.
Tokenizer make_average(const TokenizerConfig& config, c10::Device device);

/// Moves a tokenizer to a device, in the memory format that is fast there, and sets its precision.
void move_to_device(Tokenizer& tokenizer, const TokenizerConfig& config, c10::Device device);

/// What train.precision means for a model on a device: fp32 on a CPU for one that was trained in a
/// precision that only GPUs have.
Precision precision_on(const RunConfig& config, c10::Device device);

/// Images [B, 3, H, W] as brightness and two differences of colours, orange against blue and green
/// against purple, and back. In photographs and drawn images the differences vary much less than
/// brightness, which makes networks learn them late; here they are enlarged by 3 and 8, to about
/// its range.
torch::Tensor to_opponent_colors(const torch::Tensor& images);
torch::Tensor from_opponent_colors(const torch::Tensor& channels);

}  // namespace nsvq
