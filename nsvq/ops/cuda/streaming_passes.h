// What the operators on a GPU (streaming_cuda.cpp) are made of: inputs, results, and the passes
// over them, by the kernels for Hopper where these can be used (gpu_path.h), else by blocked matrix
// products (blocked_passes.h).
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "nsvq/ops/cuda/exact_scan.h"

namespace nsvq::streaming_cuda {

/// Inputs on the GPU, what was measured of them, and where work goes.
struct Inputs {
  Inputs(const char* op, const at::Tensor& latents, const at::Tensor& codebook);

  Matrix latents() const { return {z.const_data_ptr<float>(), z.size(0)}; }
  Matrix codes() const { return {c.const_data_ptr<float>(), c.size(0)}; }
  const float* centre_values() const { return centre.const_data_ptr<float>(); }
  Survey* survey() const { return reinterpret_cast<Survey*>(counters.data_ptr<int>()); }
  /// Latents left to the exact scan: their number, then their rows.
  int* missing() const { return counters.data_ptr<int>() + kSurvey; }
  /// Room for so many values of a type.
  template <typename T>
  at::Tensor room(int64_t count) const {
    return at::empty({count * static_cast<int64_t>(sizeof(T))}, z.options().dtype(at::kByte));
  }

  static constexpr int64_t kSurvey = sizeof(Survey) / sizeof(int);
  at::Tensor z, c;  ///< latents [N, d] and codes [K, d] in fp32
  int64_t dimension;
  bool packed;  ///< for the kernels for Hopper
  cudaStream_t stream;
  int processors;
  at::Tensor centre, counters;
};

/// Tensors [N] for the results of a search, with or without the NS loss.
struct Found {
  Found(const at::Tensor& latents, bool with_loss);
  Results results() const;
  at::Tensor indices, distances, losses, denominators;
};

/// Indices and distances and, with tau > 0, losses and denominators.
void search(const Inputs& in, double tau, const Found& found);

/// Pulls [K, d] for the results of a search.
at::Tensor pull(const Inputs& in, const at::Tensor& indices, const at::Tensor& denominators,
                double tau);

/// Both, with the latents and codes packed once.
at::Tensor search_and_pull(const Inputs& in, double tau, const Found& found);

}  // namespace nsvq::streaming_cuda
