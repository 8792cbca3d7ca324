#pragma once

#include <utility>

#include "nsvq/quantizers/quantizer.h"

namespace nsvq {

/// Base of the members whose codes are made from something else by a map that trains: a step moves
/// all codes, not only those that were chosen. Indices decode through the map.
class MappedQuantizer : public Quantizer {
 public:
  explicit MappedQuantizer(QuantizerConfig config) : config_(std::move(config)) {}

  torch::Tensor decode(const torch::Tensor& indices) override;
  torch::Tensor code_vectors() override;

 protected:
  /// All codes [K, d], with gradients for what makes them.
  virtual torch::Tensor mapped_codes() = 0;

  Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) override;
  torch::Tensor encode_wide(const torch::Tensor& latents) override;
  QuantizerConfig config_;
};

}  // namespace nsvq
