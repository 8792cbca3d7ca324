#include "nsvq/metrics/usage.h"

#include <cmath>

namespace nsvq {

Usage::Usage(int64_t codes, Figure figure) : figure_(figure) {
  TORCH_CHECK(codes > 0, "usage: needs at least one code, got ", codes);
  hits_ = torch::zeros({codes}, torch::kLong);
}

void Usage::add(const EvalBatch& batch) {
  TORCH_CHECK(batch.indices.defined() && batch.indices.scalar_type() == torch::kLong,
              "usage: indices must be int64");
  const auto indices = batch.indices.flatten();
  if (indices.numel() == 0) return;
  const int64_t codes = hits_.size(0);
  const auto lowest = indices.min().item<int64_t>(), highest = indices.max().item<int64_t>();
  TORCH_CHECK(lowest >= 0 && highest < codes, "usage: indices from ", lowest, " to ", highest,
              " for a codebook of ", codes, " codes");
  hits_ += torch::bincount(indices, /*weights=*/{}, codes).cpu();
}

std::optional<double> Usage::value() const {
  if (!hits_.any().item<bool>()) return std::nullopt;
  return figure_(hits_);
}

double utilisation(const torch::Tensor& hits) {
  return hits.count_nonzero().item<double>() / static_cast<double>(hits.numel());
}

double token_entropy(const torch::Tensor& hits) {
  const auto used = hits.masked_select(hits > 0).to(torch::kDouble);
  const auto inverse = used.sum() / used;  // Of the probabilities: no log of these gives -0.
  return (inverse.log2() / inverse).sum().item<double>();
}

double perplexity(const torch::Tensor& hits) { return std::exp2(token_entropy(hits)); }

}  // namespace nsvq
