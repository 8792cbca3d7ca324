#include "nsvq/ops/random/sample_by_cosine.h"

#include <torch/library.h>

#include <cmath>
#include <numeric>

#include "nsvq/core/threads/parallel.h"
#include "nsvq/ops/code_search/nearest_codes_cosine.h"
#include "nsvq/ops/common/check_codes.h"
#include "nsvq/ops/common/dispatch.h"
#include "nsvq/ops/random/philox.h"
#include "nsvq/ops/random/seeded_random.h"

namespace nsvq {

namespace {

/// sample_by_cosine for rows of length 1 in fp32.
torch::Tensor sample_unit_rows_cpu(const torch::Tensor& codes, const torch::Tensor& latents,
                                   const torch::Tensor& seed) {
  auto drawn = at::empty({codes.size(0)}, at::kLong);
  const int64_t n = latents.size(0), d = latents.size(1);
  const auto *code = codes.const_data_ptr<float>(), *latent = latents.const_data_ptr<float>();
  auto* result = drawn.mutable_data_ptr<int64_t>();
  const auto start = static_cast<uint64_t>(seed.item<int64_t>());
  constexpr int64_t kCodesOfATask = 256;
  parallel_ranges(codes.size(0), kCodesOfATask, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
      Proposals proposals(start, j, n);
      for (int i = 0; i < kMostProposals; ++i) {
        const auto [at, bar] = proposals.next();
        result[j] = at;
        const auto *own = code + j * d, *other = latent + at * d;
        if (bar < std::exp(std::inner_product(own, own + d, other, 0.0f) - 1)) break;
      }
    }
  });
  return drawn;
}

}  // namespace

torch::Tensor sample_by_cosine(const torch::Tensor& codebook, const torch::Tensor& latents,
                               const torch::Tensor& seed) {
  check_code_shapes("sample_by_cosine", latents, codebook);
  TORCH_CHECK(latents.size(0) > 0, "sample_by_cosine: there are no latents to draw from");
  check_seed("sample_by_cosine", seed, latents.device());
  using Draw = torch::Tensor(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&);
  static const auto op = operator_named<Draw>("nsvq::sample_unit_rows");
  const auto units = [](const torch::Tensor& rows) {
    return unit_vectors(rows.detach()).to(at::kFloat).contiguous();
  };
  return op.call(units(codebook), units(latents), seed);
}

TORCH_LIBRARY_FRAGMENT(nsvq, m) {
  m.def("sample_unit_rows(Tensor codes, Tensor latents, Tensor seed) -> Tensor");
}
TORCH_LIBRARY_IMPL(nsvq, CPU, m) { m.impl("sample_unit_rows", sample_unit_rows_cpu); }

}  // namespace nsvq
