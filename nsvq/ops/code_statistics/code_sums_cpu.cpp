#include <torch/library.h>

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "nsvq/core/threads/parallel.h"
#include "nsvq/ops/code_statistics/code_sums.h"

namespace nsvq {

namespace {

struct CodeOfRow {
  int64_t code, row;
};

/// Rows sorted by code, those of one code in their order: a radix sort, whose tables are small
/// where there are many codes and few rows.
std::vector<CodeOfRow> sort_rows(const int64_t* indices, int64_t rows, int64_t codes) {
  std::vector<CodeOfRow> sorted(rows), other(rows);
  for (int64_t i = 0; i < rows; ++i) {
    TORCH_CHECK(indices[i] >= 0 && indices[i] < codes, "code_sums: index ", indices[i],
                " is outside [0, ", codes, ")");
    sorted[i] = {indices[i], i};
  }
  constexpr int kBits = 11;
  const auto bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(codes)));
  for (int shift = 0; shift < bits; shift += kBits) {
    const auto digit = [&](int64_t code) { return (code >> shift) & ((1 << kBits) - 1); };
    std::array<int64_t, (1 << kBits) + 1> next{};
    for (const auto& one : sorted) ++next[digit(one.code) + 1];
    for (size_t i = 1; i < next.size(); ++i) next[i] += next[i - 1];
    for (const auto& one : sorted) other[next[digit(one.code)]++] = one;
    sorted.swap(other);
  }
  return sorted;
}

/// The sum of a code's rows, in fp64, so that many rows of one code lose nothing.
void add_rows(const CodeOfRow* begin, const CodeOfRow* end, const float* latents, int64_t dimension,
              float* out) {
  if (end - begin == 1) {
    std::copy_n(latents + begin->row * dimension, dimension, out);
    return;
  }
  constexpr int64_t kColumns = 64;
  for (int64_t column = 0; column < dimension; column += kColumns) {
    const int64_t width = std::min(kColumns, dimension - column);
    std::array<double, kColumns> sums{};
    for (const auto* one = begin; one != end; ++one) {
      const float* row = latents + one->row * dimension + column;
      if (width == kColumns) {  // with a fixed number the loop is vectorised
        for (int64_t j = 0; j < kColumns; ++j) sums[j] += row[j];
      } else {
        for (int64_t j = 0; j < width; ++j) sums[j] += row[j];
      }
    }
    for (int64_t j = 0; j < width; ++j) out[column + j] = static_cast<float>(sums[j]);
  }
}

/// Writes the sums of codes [begin, end), and zeros for codes without rows, in one pass over
/// memory.
void write_sums(const std::vector<CodeOfRow>& sorted, int64_t begin, int64_t end,
                const float* latents, int64_t dimension, float* sums) {
  const auto less = [](const CodeOfRow& one, int64_t code) { return one.code < code; };
  const auto* all = sorted.data();
  const auto* last = std::lower_bound(all, all + sorted.size(), end, less);
  int64_t written = begin;
  for (const auto* one = std::lower_bound(all, last, begin, less); one != last;) {
    const int64_t code = one->code;
    const auto* next = one;
    while (next != last && next->code == code) ++next;
    std::fill(sums + written * dimension, sums + code * dimension, 0.f);
    add_rows(one, next, latents, dimension, sums + code * dimension);
    written = code + 1;
    one = next;
  }
  std::fill(sums + written * dimension, sums + end * dimension, 0.f);
}

torch::Tensor code_sums_cpu(const torch::Tensor& latents, const torch::Tensor& indices,
                            int64_t codes) {
  check_code_sums(latents, indices);
  const auto wide = latents.to(at::kFloat).contiguous();
  const auto winners = indices.contiguous();
  const int64_t dimension = wide.size(1);
  auto sums = at::empty({codes, dimension}, wide.options());
  const auto sorted = sort_rows(winners.const_data_ptr<int64_t>(), wide.size(0), codes);
  const auto* values = wide.const_data_ptr<float>();
  auto* out = sums.mutable_data_ptr<float>();
  constexpr int64_t kPiece = 1024;  // codes
  parallel_ranges(codes, kPiece, [&](int64_t begin, int64_t end) {
    write_sums(sorted, begin, end, values, dimension, out);
  });
  return sums;
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CPU, m) { m.impl("code_sums", code_sums_cpu); }

}  // namespace nsvq
