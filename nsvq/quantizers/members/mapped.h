#pragma once

#include <utility>

#include "nsvq/quantizers/quantizer.h"

namespace nsvq {

/// Base of the members whose codes are made from something else by a map that trains: a step moves
/// all codes, not only those that were chosen. Indices decode through the map. With
/// quantizer.normalise latents and mapped codes are divided by their norms.
class MappedQuantizer : public Quantizer {
 public:
  explicit MappedQuantizer(QuantizerConfig config) : config_(std::move(config)) {}

  torch::Tensor decode(const torch::Tensor& indices) override;
  torch::Tensor code_vectors() override;
  Distance distance() const override;
  torch::Tensor compared(const torch::Tensor& latents) const override { return scaled(latents); }

 protected:
  /// All codes [K, d], with gradients for what makes them.
  virtual torch::Tensor mapped_codes() = 0;
  /// mapped_codes() as they are searched for and decoded.
  torch::Tensor scaled_codes() { return scaled(mapped_codes()); }
  /// Vectors along dimension 1, with quantizer.normalise divided by their norms.
  torch::Tensor scaled(const torch::Tensor& vectors) const;

  Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) override;
  torch::Tensor encode_wide(const torch::Tensor& latents) override;
  QuantizerConfig config_;
};

}  // namespace nsvq
