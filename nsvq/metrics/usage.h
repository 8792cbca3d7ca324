#pragma once

#include "nsvq/metrics/metric.h"

namespace nsvq {

/// How often each code was hit, and a figure of that.
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
/// Of a token, in bits, if tokens are drawn as often as they were hit: 0 to log2 K.
double token_entropy(const torch::Tensor& hits);
/// 2 to the power of the entropy: as many codes, used evenly, have the same.
double perplexity(const torch::Tensor& hits);

/// utilisation, perplexity and entropy.
std::vector<MetricKind> usage_kinds();

}  // namespace nsvq
