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
  std::vector<torch::Tensor> sums() override { return {hits_}; }
  std::optional<double> value() const override;

  const torch::Tensor& hits() const { return hits_; }

 private:
  Figure figure_;
  torch::Tensor hits_;  // [K] int64
};

/// The fraction of codes hit at least once.
double utilisation(const torch::Tensor& hits);
/// Of a token, in bits, if tokens are drawn as often as they were hit: 0 to log2 K.
double token_entropy(const torch::Tensor& hits);
/// 2 to the power of the entropy: as many codes, used evenly, have the same.
double perplexity(const torch::Tensor& hits);

}  // namespace nsvq
