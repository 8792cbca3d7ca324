// Tensors of an optimizer as a table that is a parameter of a launch: nothing is copied to the GPU
// first, so a graph can record it.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

#include "nsvq/ops/common/grid.h"

namespace nsvq::adam_cuda {

constexpr int kChunk = 4096;  // numbers per block
constexpr int kVector = 4;    // numbers in 16 bytes
constexpr int kMost = 480;    // tensors per launch
static_assert(kChunk % kVector == 0, "a chunk begins where its tensor is aligned");

struct Steps {
  float* of[kMost];
  int count;
};

/// Block b has a chunk of the tensor t with first[t] <= b < first[t + 1].
struct Table {
  float *parameters[kMost], *moments1[kMost], *moments2[kMost], *averages[kMost];
  const float* gradients[kMost];
  int64_t sizes[kMost];
  Steps steps;
  int first[kMost + 1];
  float lr_scales[kMost];
  bool aligned[kMost];  // whether all of a tensor's pointers are, for vectors
};

/// Lists of tensors; those that the work does not need are empty.
struct Lists {
  at::TensorList parameters, gradients, moments1, moments2, steps, averages;
  at::ArrayRef<double> lr_scales = {};
};

/// Fills a table's column for tensors [begin, end).
template <typename Pointer>
inline void point(at::TensorList tensors, size_t begin, size_t end, Pointer* column, Table& table) {
  for (size_t i = begin; i < end; ++i) {
    column[i - begin] = tensors.empty() ? nullptr : tensors[i].mutable_data_ptr<float>();
    if (reinterpret_cast<uintptr_t>(column[i - begin]) % (kVector * sizeof(float)) != 0) {
      table.aligned[i - begin] = false;
    }
  }
}

inline Table table_of(const Lists& lists, size_t begin, size_t end) {
  Table table;
  point(lists.steps, begin, end, table.steps.of, table);
  std::fill_n(table.aligned, kMost, true);  // whatever the steps are
  point(lists.parameters, begin, end, table.parameters, table);
  point(lists.gradients, begin, end, table.gradients, table);
  point(lists.moments1, begin, end, table.moments1, table);
  point(lists.moments2, begin, end, table.moments2, table);
  point(lists.averages, begin, end, table.averages, table);
  table.steps.count = static_cast<int>(end - begin);
  table.first[0] = 0;
  for (int i = 0; i < table.steps.count; ++i) {
    const auto& scales = lists.lr_scales;
    table.lr_scales[i] = scales.empty() ? 1 : static_cast<float>(scales[begin + i]);
    table.sizes[i] = lists.parameters[begin + i].numel();
    table.first[i + 1] = table.first[i] + static_cast<int>(divided(table.sizes[i], kChunk));
  }
  return table;
}

}  // namespace nsvq::adam_cuda
