#include "nsvq/metrics/usage.h"

#include <cmath>
#include <utility>

#include "nsvq/ops/code_statistics/code_usage.h"

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
  if (indices.is_cpu()) {
    hits_ += code_usage(indices, codes);
    return;
  }
  const auto counts = code_usage(indices.clamp(-1, codes) + 1, codes + 2);
  on_gpu_ = on_gpu_.defined() ? on_gpu_ + counts : counts;
}

const torch::Tensor& Usage::hits() const {
  if (!on_gpu_.defined()) return hits_;
  const auto counts = std::exchange(on_gpu_, {}).cpu();
  const int64_t codes = hits_.size(0);
  const auto outside = (counts[0] + counts[codes + 1]).item<int64_t>();
  TORCH_CHECK(outside == 0, "usage: ", outside, " indices are outside the codebook of ", codes,
              " codes");
  hits_.add_(counts.slice(0, 1, codes + 1));
  return hits_;
}

std::optional<double> Usage::value() const {
  if (!hits().any().item<bool>()) return std::nullopt;
  return figure_(hits());
}

double utilisation(const torch::Tensor& hits) {
  return hits.count_nonzero().item<double>() / static_cast<double>(hits.numel());
}

double token_entropy(const torch::Tensor& hits) {
  const auto used = hits.masked_select(hits > 0).to(torch::kDouble);
  const auto inverse = used.sum() / used;  // 1 / probability, whose log is never -0
  return (inverse.log2() / inverse).sum().item<double>();
}

double perplexity(const torch::Tensor& hits) { return std::exp2(token_entropy(hits)); }

std::vector<MetricKind> usage_kinds() {
  const auto kind = [](const std::string& name, const std::string& summary,
                       const MetricDisplay& display, Usage::Figure figure) {
    return MetricKind{.name = name,
                      .other_names = {},
                      .summary = summary,
                      .display = display,
                      .input = MetricInput::tokens,
                      .choices = [summary](const Conventions&) { return summary; },
                      .make =
                          [figure](const MetricOptions& options) {
                            return std::make_unique<Usage>(options.codes, figure);
                          }};
  };
  return {kind("utilisation", "codes used at least once",
               {.title = "Codebook utilisation",
                .chart = "Codebook utilisation",
                .axis = "share of codes",
                .unit = "%",
                .scale = 100,
                .decimals = 1},
               utilisation),
          kind("perplexity", "2 to the power of the entropy",
               {.title = "Codebook perplexity",
                .chart = "Codebook perplexity",
                .axis = "codes",
                .unit = "",
                .decimals = 1},
               perplexity),
          kind("entropy", "of a token, by how often each code was used",
               {.title = "Token entropy",
                .chart = "Token entropy",
                .axis = "bit",
                .unit = "bit",
                .decimals = 3},
               token_entropy)};
}

}  // namespace nsvq
