#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "nsvq/nn/vit.h"

namespace nsvq {

/// The network that makes the codes of fvq.
struct BridgeConfig {
  int64_t patch = 8;
  int64_t width = 256;
  int64_t heads = 4;
  int64_t blocks = 2;
};

/// VQBridge (Chang et al., 2025): a codebook [K, d], laid out as a square of sqrt(K) x sqrt(K),
/// through a vision transformer on its patches, to codes [K, d]. Without positions and without a
/// path around it. The last layer starts at 0, and so does every code.
struct CodeBridgeImpl : torch::nn::Module {
  /// Throws UserError if the codes are no square of whole patches or the heads do not divide the
  /// width.
  CodeBridgeImpl(const BridgeConfig& config, int64_t codes, int64_t dim);
  torch::Tensor forward(const torch::Tensor& codebook);

 private:
  torch::Tensor to_patches(const torch::Tensor& codebook) const;
  torch::Tensor from_patches(const torch::Tensor& patches) const;

  int64_t patch_, patches_, dim_;  ///< codes along a patch, patches along the square, channels
  std::shared_ptr<torch::nn::LinearImpl> embed_, last_;
  std::vector<std::shared_ptr<VitBlockImpl>> blocks_;
};

}  // namespace nsvq
