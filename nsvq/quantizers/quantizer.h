#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nsvq/core/config.h"

namespace nsvq {

/// Which terms of the quantization loss a training phase asks for.
struct QuantizerTerms {
  bool commitment = true;  ///< pulls the encoder to its codes
  bool neighbours = true;  ///< a method's own codebook terms beyond fitting, such as the NS loss
};

/// What quantizing a batch of latents gives.
struct Quantized {
  torch::Tensor latents;  ///< [B, d, h, w], codes with straight-through gradients
  torch::Tensor indices;  ///< [B, h, w] int64
  torch::Tensor loss;     ///< scalar, the weighted sum of the terms asked for
  std::map<std::string, torch::Tensor> terms;  ///< detached scalars; "commitment" is always there
};

/// A tokenizer's bottleneck: latents to codes and back.
class Quantizer : public torch::nn::Module {
 public:
  /// Quantizes latents [B, d, h, w] with gradients and losses.
  virtual Quantized quantize(const torch::Tensor& latents, const QuantizerTerms& terms) = 0;
  /// Indices [B, h, w] alone, without gradients or losses; changes no state.
  virtual torch::Tensor encode(const torch::Tensor& latents) = 0;
  /// Indices [B, h, w] to the latents [B, d, h, w] that the decoder is given.
  virtual torch::Tensor decode(const torch::Tensor& indices) = 0;
  /// Number of distinct indices.
  virtual int64_t codes() const = 0;

  /// The learned codebook [K, d] whose rows replacement may overwrite; undefined where there is
  /// none.
  virtual torch::Tensor codebook() { return {}; }
  /// Called once, before training, with latents [N, d] of the first batches, if `wants_data` says
  /// so.
  virtual bool wants_data() const { return false; }
  virtual void initialise_from(const torch::Tensor& /*latents*/, uint64_t /*seed*/) {}
};

/// A member of the family: its name in recipes, a line about it, and how to make one.
struct QuantizerKind {
  std::string name;
  std::string summary;
  std::function<std::shared_ptr<Quantizer>(const QuantizerConfig&, int64_t latent_dim)> make;
};

/// All members, in the order in which documents list them.
const std::vector<QuantizerKind>& quantizer_kinds();

/// Throws UserError naming the valid types if `type` is none of them.
const QuantizerKind& quantizer_kind(const std::string& type);

std::shared_ptr<Quantizer> make_quantizer(const QuantizerConfig& config, int64_t latent_dim);

}  // namespace nsvq
