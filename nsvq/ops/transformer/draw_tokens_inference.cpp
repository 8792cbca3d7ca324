#include "nsvq/ops/transformer/draw_tokens_inference.h"

#include <torch/library.h>
#include <torch/types.h>

#include "nsvq/core/fp32.h"
#include "nsvq/ops/common/dispatch.h"
#include "nsvq/ops/common/layout.h"
#include "nsvq/ops/common/optional_tensor.h"
#include "nsvq/ops/random/seeded_random.h"

namespace nsvq {

namespace {

at::Tensor draw_tokens_cpu(const at::Tensor& logits, const at::Tensor& seeds,
                           const OptionalTensor& weight, const OptionalTensor& factor,
                           double temperature, const OptionalTensor& wanted) {
  const CodeDraw how{seeds, tensor_of(weight), tensor_of(factor), temperature, tensor_of(wanted)};
  check_draw_tokens(logits, how);
  return draw_tokens_reference(logits, how);
}

}  // namespace

void check_draw_tokens(const at::Tensor& logits, const CodeDraw& how) {
  constexpr auto op = "draw_tokens_inference: ";
  const int64_t rows = how.seeds.numel() * (how.weight.defined() ? 2 : 1);
  TORCH_CHECK(how.seeds.scalar_type() == at::kLong && how.seeds.dim() == 1, op,
              "the seeds must be [N] of int64, but they are ", how.seeds.scalar_type(), " ",
              how.seeds.sizes());
  TORCH_CHECK(logits.dim() == 2 && logits.size(0) == rows && logits.size(1) > 0 &&
                  logits.size(1) < int64_t{1} << 31 && logits.device() == how.seeds.device(),
              op, "logits must be [", rows, ", K] on ", how.seeds.device(), ", but they are ",
              logits.sizes(), " on ", logits.device());
  TORCH_CHECK(has_kernels_type(logits), op, "logits must be fp32, bf16 or fp16, but they are ",
              logits.scalar_type());
  for (const auto& one : {how.weight, how.factor}) {
    TORCH_CHECK(!one.defined() || (one.scalar_type() == at::kFloat && one.numel() == 1 &&
                                   one.device() == logits.device()),
                op, "weight and factor must be one fp32 each on ", logits.device());
  }
  TORCH_CHECK(!how.wanted.defined() || (how.wanted.scalar_type() == at::kBool &&
                                        how.wanted.sizes() == how.seeds.sizes() &&
                                        how.wanted.device() == logits.device()),
              op, "wanted must be a bool for each seed");
}

at::Tensor draw_tokens_inference(const at::Tensor& logits, const CodeDraw& how) {
  using Draw = at::Tensor(const at::Tensor&, const at::Tensor&, const OptionalTensor&,
                          const OptionalTensor&, double, const OptionalTensor&);
  static const auto op = operator_named<Draw>("nsvq::draw_tokens_inference");
  return op.call(logits, how.seeds, optional_of(how.weight), optional_of(how.factor),
                 how.temperature, optional_of(how.wanted));
}

at::Tensor draw_tokens_reference(const at::Tensor& logits, const CodeDraw& how) {
  auto x = at_least_fp32(logits);
  if (how.weight.defined()) {
    const auto halves = x.chunk(2);
    x = halves[1] + how.weight * (halves[0] - halves[1]);
  }
  if (how.factor.defined()) x = x * how.factor;
  if (how.temperature != 1) x = x / how.temperature;
  constexpr double kLeast = 0x1p-25;  // half the distance of neighbouring numbers
  const auto noise = uniform_rows(how.seeds, /*draw=*/0, x.size(1)).clamp_min_(kLeast);
  const auto drawn = (x + noise.log_().neg_().log_().neg_()).argmax(1);
  return how.wanted.defined() ? drawn.masked_fill(how.wanted.logical_not(), 0) : drawn;
}

TORCH_LIBRARY_FRAGMENT(nsvq, m) {
  m.def(
      "draw_tokens_inference(Tensor logits, Tensor seeds, Tensor? weight, Tensor? factor, float "
      "temperature, Tensor? wanted) -> Tensor");
}
TORCH_LIBRARY_IMPL(nsvq, CPU, m) { m.impl("draw_tokens_inference", draw_tokens_cpu); }

}  // namespace nsvq
