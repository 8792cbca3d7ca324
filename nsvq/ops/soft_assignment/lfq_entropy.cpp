#include "nsvq/ops/soft_assignment/lfq_entropy.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

namespace nsvq {

namespace {

using Tensor = torch::Tensor;
using MeanOverRanks = std::function<void(const Tensor&)>;

constexpr double kEps = 1e-5;

/// Probabilities of halves held at a time, 8 MiB in fp32; a handful of such tensors is alive at
/// once, and three tensors of 2^bits.
constexpr int64_t kAtATime = int64_t{1} << 21;

/// A matrix [2^bits, bits] with bit k of j.
Tensor bits_of_numbers(int64_t bits, const Tensor& like) {
  const auto options = like.options().dtype(at::kLong);
  const auto numbers = at::arange(int64_t{1} << bits, options).unsqueeze(1);
  return numbers.bitwise_right_shift(at::arange(bits, options)).bitwise_and(1).to(like);
}

/// Probabilities [n, 2^h] of all values of h bits, from their logits [n, h].
Tensor half_probabilities(const Tensor& logits) {
  const auto set = logits.sigmoid(), unset = logits.neg().sigmoid();
  auto result = at::ones({logits.size(0), 1}, logits.options());
  for (int64_t k = 0; k < logits.size(1); ++k) {
    result = at::cat({result * unset.narrow(1, k, 1), result * set.narrow(1, k, 1)}, 1);
  }
  return result;
}

/// The gradient [n, h] for the logits from that [n, 2^h] for the probabilities: p_j changes with
/// logit k by p_j (bit - sigmoid), which is split into terms so that nothing cancels near 0 and 1.
Tensor half_gradient(const Tensor& logits, const Tensor& probabilities, const Tensor& gradient) {
  const auto pull = probabilities * gradient;
  const auto bits = bits_of_numbers(logits.size(1), logits);
  return pull.matmul(bits) * logits.neg().sigmoid() - pull.matmul(1 - bits) * logits.sigmoid();
}

struct Halves {
  Tensor low, high;  ///< logits [n, ...]
};

/// Pieces of rows of the logits [N, bits], lower and upper bits apart.
std::vector<Halves> in_pieces(const Tensor& logits) {
  const int64_t bits = logits.size(1), low = (bits + 1) / 2;
  const int64_t rows =
      std::max<int64_t>(1, kAtATime / ((int64_t{1} << low) + (int64_t{1} << (bits - low))));
  std::vector<Halves> pieces;
  for (const auto& piece : logits.split(rows)) {
    pieces.push_back({piece.narrow(1, 0, low), piece.narrow(1, low, bits - low)});
  }
  return pieces;
}

class BatchEntropy : public torch::autograd::Function<BatchEntropy> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& logits,
                        const MeanOverRanks& over_ranks) {
    const int64_t bits = logits.size(1), low = (bits + 1) / 2;
    // Rows are the upper bits: flattened, entry j is that of code j.
    auto mean = at::zeros({int64_t{1} << (bits - low), int64_t{1} << low}, logits.options());
    for (const auto& half : in_pieces(logits)) {
      mean.addmm_(half_probabilities(half.high).t(), half_probabilities(half.low));
    }
    mean.div_(logits.size(0));
    if (over_ranks) over_ranks(mean);
    context->save_for_backward({logits, mean});
    return (mean + kEps).log_().mul_(mean).sum().neg();
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "lfq_entropy: has no second derivative");
    const auto saved = context->get_saved_variables();
    const auto &logits = saved[0], &mean = saved[1];
    // -(log(p + eps) + p / (p + eps)) / N, in place: these are the largest tensors here.
    auto shifted = mean + kEps;
    const auto to_mean = shifted.log();
    to_mean.sub_(shifted.reciprocal_(), kEps).add_(1).mul_(gradients[0] / -logits.size(0));
    std::vector<Tensor> results;
    for (const auto& half : in_pieces(logits)) {
      const auto low = half_probabilities(half.low), high = half_probabilities(half.high);
      results.push_back(at::cat({half_gradient(half.low, low, high.matmul(to_mean)),
                                 half_gradient(half.high, high, low.matmul(to_mean.t()))},
                                1));
    }
    return {at::cat(results), Tensor()};
  }
};

void check_lfq(const Tensor& latents, double temperature) {
  TORCH_CHECK(latents.dim() == 2 && latents.size(1) >= 1 && latents.size(1) <= 24,
              "lfq_entropy: latents must be [N, bits] with 1 to 24 bits, but they are ",
              latents.sizes());
  TORCH_CHECK(temperature > 0, "lfq_entropy: temperature must be positive, but it is ",
              temperature);
}

}  // namespace

LfqEntropy lfq_entropy(const Tensor& latents, double temperature, const MeanOverRanks& over_ranks) {
  check_lfq(latents, temperature);
  const auto logits = latents * (4 / temperature);
  if (latents.numel() == 0) return {logits.sum(), logits.sum()};
  // H(sigmoid(x)) = log(1 + exp(-|x|)) + |x| sigmoid(-|x|)
  const auto size = logits.abs();
  const auto entropies = at::softplus(-size) + size * (-size).sigmoid();
  return {entropies.sum(1).mean(), BatchEntropy::apply(logits, over_ranks)};
}

LfqEntropy lfq_entropy_reference(const Tensor& latents, double temperature) {
  check_lfq(latents, temperature);
  const auto codes = 2 * bits_of_numbers(latents.size(1), latents) - 1;
  const auto logits = latents.matmul(codes.t()) * (2 / temperature);
  const auto p = logits.softmax(1);
  const auto mean = p.mean(0);
  return {-(p * logits.log_softmax(1)).sum(1).mean(), -(mean * (mean + kEps).log()).sum()};
}

}  // namespace nsvq
