#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nsvq/nn/vit.h"

namespace nsvq {

/// The network that makes the codes of fvq.
struct BridgeConfig {
  int64_t patch = 8;
  int64_t width = 256;
  int64_t heads = 4;
  int64_t blocks = 2;
  std::string variant = "dit";
};

/// VQBridge (Chang et al., 2025): a codebook [K, d], laid out as a square of sqrt(K) x sqrt(K),
/// through a transformer on its patches, to codes [K, d], without a path around it. The last layer
/// starts at 0, and so does every code. Variants:
///   dit  what the authors train: fixed sin-cos positions are added to the patches' tokens, and
///        norms and residual branches are modulated by layers of one trained vector, 0 at the start
///   vit  what their paper describes: neither
struct CodeBridgeImpl : torch::nn::Module {
  /// Throws UserError if the codes are no square of whole patches, the heads do not divide the
  /// width, or positions do not fit it.
  CodeBridgeImpl(const BridgeConfig& config, int64_t codes, int64_t dim);
  torch::Tensor forward(const torch::Tensor& codebook);

 private:
  torch::Tensor to_patches(const torch::Tensor& codebook) const;
  torch::Tensor from_patches(const torch::Tensor& patches) const;
  torch::Tensor modulated(torch::Tensor tokens);
  void add_modulation(int64_t width);

  int64_t patch_, patches_, dim_;  ///< codes along a patch, patches along the square, channels
  std::shared_ptr<torch::nn::LinearImpl> embed_, last_;
  std::vector<std::shared_ptr<VitBlockImpl>> blocks_;
  // The variant dit alone has these.
  torch::Tensor condition_;  ///< [width], what modulation is made of; undefined in the variant vit
  std::vector<std::shared_ptr<torch::nn::LinearImpl>> modulation_;  ///< of each block, then last
};

}  // namespace nsvq
