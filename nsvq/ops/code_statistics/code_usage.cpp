#include "nsvq/ops/code_statistics/code_usage.h"

#include <torch/library.h>

#include "nsvq/ops/common/dispatch.h"

namespace nsvq {

namespace {

torch::Tensor code_usage_cpu(const torch::Tensor& indices, int64_t codes) {
  TORCH_CHECK(indices.scalar_type() == at::kLong, "code_usage: indices must be int64");
  auto counts = at::zeros({codes}, at::kLong);
  const auto contiguous = indices.contiguous();
  const auto* index = contiguous.const_data_ptr<int64_t>();
  auto* count = counts.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < contiguous.numel(); ++i) {
    TORCH_CHECK(index[i] >= 0 && index[i] < codes, "code_usage: index ", index[i],
                " is outside [0, ", codes, ")");
    ++count[index[i]];
  }
  return counts;
}

torch::Tensor code_usage_meta(const torch::Tensor& indices, int64_t codes) {
  return at::empty({codes}, indices.options());
}

}  // namespace

torch::Tensor code_usage(const torch::Tensor& indices, int64_t codes) {
  using Count = torch::Tensor(const torch::Tensor&, int64_t);
  static const auto op = operator_named<Count>("nsvq::code_usage");
  return op.call(indices, codes);
}

TORCH_LIBRARY(nsvq, m) { m.def("code_usage(Tensor indices, int codes) -> Tensor"); }
TORCH_LIBRARY_IMPL(nsvq, CPU, m) { m.impl("code_usage", code_usage_cpu); }
TORCH_LIBRARY_IMPL(nsvq, Meta, m) { m.impl("code_usage", code_usage_meta); }

}  // namespace nsvq
