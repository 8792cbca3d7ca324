#pragma once

#include <torch/types.h>

#include <functional>
#include <vector>

namespace nsvq {

/// The results of a function of rows.
struct RowResults {
  std::vector<torch::Tensor> rows;  ///< [n, ...], one row for each row given
  std::vector<torch::Tensor> sums;  ///< sums over the rows given
};

/// A function of rows [n, ...], the number of the first of them among all, and tensors that all
/// rows share. Called again with the same arguments it gives the same results: what it draws comes
/// from a seed.
using RowFunction = std::function<RowResults(const torch::Tensor& rows, int64_t first,
                                             const std::vector<torch::Tensor>& shared)>;

/// The number of rows, one at least, that make 2^25 numbers (128 MiB in fp32) with this many
/// columns.
int64_t rows_at_a_time(int64_t columns);

/// `function` of all rows [N, ...], called for `chunk` of them at a time, so that what it holds
/// within is bounded by the chunk and not by N. Gradients are exact: forward keeps no graph,
/// backward calls the function once more per chunk, with a graph, and adds up what the chunks give
/// to the shared tensors. Results of integers have no gradient. Automatic casts are off within. No
/// second derivative.
RowResults by_row_chunks(const torch::Tensor& rows, const std::vector<torch::Tensor>& shared,
                         int64_t chunk, RowFunction function);

}  // namespace nsvq
