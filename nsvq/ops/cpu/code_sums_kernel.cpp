#include <torch/library.h>

#include <vector>

#include "nsvq/ops/code_sums.h"
#include "nsvq/ops/cpu/parallel.h"

namespace nsvq {

namespace {

/// Rows by code: those of code k are order[first[k]] to order[first[k + 1] - 1], in their order.
struct RowsByCode {
  std::vector<int64_t> first, order;
};

RowsByCode sort_rows(const int64_t* indices, int64_t rows, int64_t codes) {
  RowsByCode result{std::vector<int64_t>(codes + 1), std::vector<int64_t>(rows)};
  for (int64_t i = 0; i < rows; ++i) {
    TORCH_CHECK(indices[i] >= 0 && indices[i] < codes, "code_sums: index ", indices[i],
                " is outside [0, ", codes, ")");
    ++result.first[indices[i] + 1];
  }
  for (int64_t k = 0; k < codes; ++k) result.first[k + 1] += result.first[k];
  auto next = result.first;
  for (int64_t i = 0; i < rows; ++i) result.order[next[indices[i]]++] = i;
  return result;
}

/// Sums of a code's rows in fp64, so that many rows of one code lose nothing.
void add_rows_of(int64_t code, const RowsByCode& rows, const float* latents, int64_t dimension,
                 std::vector<double>& sums, float* out) {
  const int64_t begin = rows.first[code], end = rows.first[code + 1];
  if (begin == end) return;
  sums.assign(dimension, 0);
  for (int64_t i = begin; i < end; ++i) {
    const float* row = latents + rows.order[i] * dimension;
    for (int64_t j = 0; j < dimension; ++j) sums[j] += row[j];
  }
  for (int64_t j = 0; j < dimension; ++j) out[code * dimension + j] = static_cast<float>(sums[j]);
}

torch::Tensor code_sums_cpu(const torch::Tensor& latents, const torch::Tensor& indices,
                            int64_t codes) {
  check_code_sums(latents, indices);
  const auto wide = latents.to(at::kFloat).contiguous();
  const auto winners = indices.contiguous();
  const int64_t dimension = wide.size(1);
  auto sums = at::zeros({codes, dimension}, wide.options());
  const auto rows = sort_rows(winners.const_data_ptr<int64_t>(), wide.size(0), codes);
  const auto* values = wide.const_data_ptr<float>();
  auto* out = sums.mutable_data_ptr<float>();
  constexpr int64_t kPiece = 1024;  // codes
  parallel_tasks((codes + kPiece - 1) / kPiece, [&](int64_t piece) {
    std::vector<double> buffer;
    const int64_t end = std::min(codes, (piece + 1) * kPiece);
    for (int64_t code = piece * kPiece; code < end; ++code) {
      add_rows_of(code, rows, values, dimension, buffer, out);
    }
  });
  return sums;
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CPU, m) { m.impl("code_sums", code_sums_cpu); }

}  // namespace nsvq
