#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <map>
#include <memory>
#include <string>

#include "nsvq/core/config.h"
#include "nsvq/core/precision.h"
#include "nsvq/nn/autoencoder.h"
#include "nsvq/quantizers/quantizer.h"

namespace nsvq {

/// Encoder, quantizer and decoder together: images to tokens and back.
struct TokenizerImpl : torch::nn::Module {
  explicit TokenizerImpl(const Config& config);

  /// Images [B, 3, H, W] in [-1, 1] to indices [B, h, w].
  torch::Tensor encode(const torch::Tensor& images);
  /// The same, but no GPU is waited for (see Quantizer): -1 stands where no code is nearest.
  torch::Tensor encode_without_waiting(const torch::Tensor& images);
  /// Indices [B, h, w] to images [B, 3, H, W].
  torch::Tensor decode(const torch::Tensor& indices);

  /// The encoder's and the decoder's part, in their precision, with gradients if they are on:
  /// images to latents [B, d, h, w] and back, both in fp32 at least.
  torch::Tensor to_latents(const torch::Tensor& images);
  torch::Tensor to_images(const torch::Tensor& latents);

  Precision precision = Precision::fp32;  ///< of encoder and decoder
  Encoder encoder;
  std::shared_ptr<Quantizer> quantizer;
  Decoder decoder;
};
TORCH_MODULE(Tokenizer);

/// Parameters and buffers by the names that files use, such as "encoder.conv_in.weight".
std::map<std::string, torch::Tensor> named_tensors(const torch::nn::Module& module);

/// Copies tensors into a module's parameters and buffers. Throws UserError, calling the tensors'
/// origin `from`, when one is missing, left over, or of another shape.
void load_tensors(torch::nn::Module& module, const std::map<std::string, torch::Tensor>& tensors,
                  const std::string& from);

}  // namespace nsvq
