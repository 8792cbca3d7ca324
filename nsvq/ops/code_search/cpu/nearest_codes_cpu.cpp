// nsvq::nearest_codes on a CPU (why it is exact: search_sweep_cpu.cpp).

#include <torch/library.h>

#include <tuple>

#include "nsvq/core/threads/parallel.h"
#include "nsvq/ops/code_search/code_search_reference.h"
#include "nsvq/ops/code_search/cpu/search_sweep_cpu.h"
#include "nsvq/ops/common/check_codes.h"

namespace nsvq {

namespace {

std::tuple<torch::Tensor, torch::Tensor> nearest_codes_cpu(const torch::Tensor& latents,
                                                           const torch::Tensor& codebook) {
  constexpr auto name = "nearest_codes";
  check_codes(name, latents, codebook);
  const auto z = latents.to(at::kFloat).contiguous(), c = codebook.to(at::kFloat).contiguous();
  const int64_t n = z.size(0), d = z.size(1);
  const auto* values = z.const_data_ptr<float>();
  const bool fp64 = latents.scalar_type() == at::kDouble || codebook.scalar_type() == at::kDouble;
  const CodePanels panels(c);
  const auto norms = norms_of(values, n, d);
  const double norm = largest_of(norms);
  if (!fp64) check_finite(name, norm, panels.largest());
  if (fp64 || !squares_fit(norm, panels.largest())) {
    TORCH_CHECK(at::isfinite(codebook).all().item<bool>(), name,
                ": codebook holds NaN or infinity");
    TORCH_CHECK(at::isfinite(latents).all().item<bool>(), name, ": latents hold NaN or infinity");
    return nearest_codes_fp64(latents, codebook);
  }
  auto indices = at::empty({n}, at::kLong), distances = at::empty({n}, at::kFloat);
  auto* index = indices.mutable_data_ptr<int64_t>();
  auto* distance = distances.mutable_data_ptr<float>();
  const Sweep sweep{values, norms, c.const_data_ptr<float>(), panels, 0};
  parallel_ranges(n, kTaskRows, [&](int64_t begin, int64_t end) {
    RowResult results[kTaskRows];
    sweep_rows(sweep, begin, end, results, nullptr);
    for (int64_t i = begin; i < end; ++i) {
      index[i] = results[i - begin].index;
      distance[i] = static_cast<float>(results[i - begin].distance);
    }
  });
  return {indices, distances};
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CPU, m) { m.impl("nearest_codes", nearest_codes_cpu); }

}  // namespace nsvq
