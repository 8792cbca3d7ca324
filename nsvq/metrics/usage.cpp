#include "nsvq/metrics/usage.h"

#include <cmath>

namespace nsvq {

Usage::Usage(int64_t codes) {
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

std::map<std::string, double> Usage::values() const {
  const auto total = hits_.sum().item<int64_t>();
  if (total == 0) return {};
  const auto used = hits_.masked_select(hits_ > 0).to(torch::kDouble) / static_cast<double>(total);
  const auto entropy = -(used * used.log()).sum().item<double>();
  const auto fraction = static_cast<double>(used.numel()) / static_cast<double>(hits_.numel());
  return {{"utilisation", fraction}, {"perplexity", std::exp(entropy)}};
}

}  // namespace nsvq
