#include "nsvq/ops/soft_assignment/softmax_rows.h"

#include <torch/library.h>

#include "nsvq/ops/common/dispatch.h"
#include "nsvq/ops/random/seeded_random.h"

namespace nsvq {

namespace {

using Tensor = torch::Tensor;
using MaybeTensor = std::optional<Tensor>;

std::tuple<Tensor, Tensor> softmax_rows_kernel(const Tensor& logits, const MaybeTensor& seed,
                                               int64_t first) {
  const auto logs = at::log_softmax(logits, 1);
  return {with_noise(logits, {seed, first}).argmax(1), -(logs.exp() * logs).sum(1)};
}

Tensor softmax_rows_backward_kernel(const Tensor& logits, const MaybeTensor& seed, int64_t first,
                                    const Tensor& temperature, const MaybeTensor& pulls,
                                    const MaybeTensor& weight) {
  auto gradient = at::zeros_like(logits);
  if (pulls) {
    const auto p = at::softmax(with_noise(logits, {seed, first}) / temperature, 1);
    gradient += p * (*pulls - (p * *pulls).sum(1, /*keepdim=*/true)) / temperature;
  }
  if (weight) {
    const auto logs = at::log_softmax(logits, 1), p = logs.exp();
    gradient -= *weight * p * (logs - (p * logs).sum(1, /*keepdim=*/true));
  }
  return gradient;
}

}  // namespace

Tensor with_noise(const Tensor& logits, const Noise& noise) {
  if (!noise.seed) return logits;
  const auto values = gumbel_values(*noise.seed, noise.first * logits.size(1), logits.numel());
  return logits + values.view_as(logits).to(logits.scalar_type());
}

SoftmaxRows softmax_rows(const Tensor& logits, const Noise& noise) {
  using Rows = std::tuple<Tensor, Tensor>(const Tensor&, const MaybeTensor&, int64_t);
  static const auto op = operator_named<Rows>("nsvq::softmax_rows");
  const auto [indices, entropy] = op.call(logits, noise.seed, noise.first);
  return {indices, entropy};
}

Tensor softmax_rows_backward(const Tensor& logits, const Noise& noise, const Tensor& temperature,
                             const MaybeTensor& pulls, const MaybeTensor& weight) {
  using Gradient = Tensor(const Tensor&, const MaybeTensor&, int64_t, const Tensor&,
                          const MaybeTensor&, const MaybeTensor&);
  static const auto op = operator_named<Gradient>("nsvq::softmax_rows_backward");
  return op.call(logits, noise.seed, noise.first, temperature, pulls, weight);
}

TORCH_LIBRARY_FRAGMENT(nsvq, m) {
  m.def("softmax_rows(Tensor logits, Tensor? seed, int first) -> (Tensor, Tensor)");
  m.def(
      "softmax_rows_backward(Tensor logits, Tensor? seed, int first, Tensor temperature, Tensor? "
      "pulls, Tensor? weight) -> Tensor");
}

TORCH_LIBRARY_IMPL(nsvq, CompositeExplicitAutograd, m) {
  m.impl("softmax_rows", softmax_rows_kernel);
  m.impl("softmax_rows_backward", softmax_rows_backward_kernel);
}

}  // namespace nsvq
