#pragma once

#include "nsvq/metrics/metric.h"

namespace nsvq {

/// "utilisation": the fraction of codes hit at least once. "perplexity": exp of the entropy of how
/// often each was hit, from 1 to the number of codes.
class Usage : public Metric {
 public:
  explicit Usage(int64_t codes);
  void add(const EvalBatch& batch) override;
  std::vector<torch::Tensor> sums() override { return {hits_}; }
  std::map<std::string, double> values() const override;

 private:
  torch::Tensor hits_;  // [K] int64
};

}  // namespace nsvq
