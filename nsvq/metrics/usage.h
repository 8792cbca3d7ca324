#pragma once

#include "nsvq/metrics/metric.h"

namespace nsvq {

/// A figure of how often each code was hit.
class Usage : public Metric {
 public:
  /// `hits` [K] int64, not all zero.
  using Figure = double (*)(const torch::Tensor& hits);

  Usage(int64_t codes, Figure figure);
  void add(const EvalBatch& batch) override;
  std::vector<torch::Tensor> sums() override { return {hits()}; }
  std::optional<double> value() const override;

  /// [K] int64 on the CPU. Throws if an index of a batch that was on a GPU was outside the
  /// codebook; on a CPU `add` does.
  const torch::Tensor& hits() const;

 private:
  Figure figure_;
  torch::Tensor hits_;            // [K]
  mutable torch::Tensor on_gpu_;  // [K + 2] hits of batches there: too low, each code, too high
};

/// The fraction of codes hit at least once.
double utilisation(const torch::Tensor& hits);
/// Entropy of the code histogram, in bits: 0 to log2 K.
double token_entropy(const torch::Tensor& hits);
/// 2 to the power of the entropy: the number of evenly used codes with that entropy.
double perplexity(const torch::Tensor& hits);

}  // namespace nsvq
