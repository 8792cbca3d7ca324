// The steps of the operators on a GPU (code_search_cuda.cpp): inputs, results, and the passes over
// all pairs of latents and codes, over tiles on the tensor cores (tile_layout.h) where these can be
// used (gpu_path.h), else by blocked matrix products.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "nsvq/ops/code_search/crowds/crowds.h"
#include "nsvq/ops/code_search/gpu_path.h"

namespace nsvq::code_search_cuda {

/// Memory of Inputs::room as values of a type.
template <typename T>
T* data(const at::Tensor& bytes) {
  return reinterpret_cast<T*>(bytes.data_ptr());
}

/// Inputs on the GPU, their range of values, and the CUDA stream to work on.
struct Inputs {
  Inputs(const char* op, const at::Tensor& latents, const at::Tensor& codebook);

  Matrix latents() const { return {z.const_data_ptr<float>(), z.size(0)}; }
  Matrix codes() const { return {c.const_data_ptr<float>(), c.size(0)}; }
  const float* centre_values() const { return centre.const_data_ptr<float>(); }
  ValueRange* range() const { return reinterpret_cast<ValueRange*>(counters.data_ptr<int>()); }
  /// The bounds of all tiles, and memory that Crowds wants to be zero: counts, then [2, K] ints.
  WidestBounds* widest() const {
    return reinterpret_cast<WidestBounds*>(counters.data_ptr<int>() + 4);
  }
  int* crowd_counts() const { return counters.data_ptr<int>() + 8; }
  /// Uninitialised memory for `count` values of a type.
  template <typename T>
  at::Tensor room(int64_t count) const {
    return at::empty({count * static_cast<int64_t>(sizeof(T))}, z.options().dtype(at::kByte));
  }

  at::Tensor z, c;  ///< latents [N, d] and codes [K, d] in fp32
  int64_t dimension;
  GpuPath path;  ///< hopper, sm80 or blocked
  cudaStream_t stream;
  int processors;
  int64_t shared_limit;  ///< bytes of shared memory that a block may have
  at::Tensor centre, counters;
};

/// Tensors [N] for the results of a search, with or without those of the NS loss.
struct Found {
  Found(const at::Tensor& latents, bool with_loss);
  Results results() const;
  at::Tensor indices, distances, losses, denominators;
};

/// Indices and distances and, with tau > 0, losses and denominators.
void search(const Inputs& in, double tau, const Found& found);

/// The sum [K, d] of ns_codebook_grad for the results of a search.
at::Tensor codebook_grad(const Inputs& in, const at::Tensor& indices,
                         const at::Tensor& denominators, double tau);

/// `search` and `codebook_grad`, with latents and codes packed once.
at::Tensor search_with_grad(const Inputs& in, double tau, const Found& found);

}  // namespace nsvq::code_search_cuda

// The passes over tiles, by the kernels for Hopper or by those for compute capability 8.0
// (hopper/tile_passes_cuda.cpp).
namespace nsvq::tiles {

void search(const code_search_cuda::Inputs& in, double tau, const code_search_cuda::Found& found);
at::Tensor codebook_grad(const code_search_cuda::Inputs& in, const at::Tensor& indices,
                         const at::Tensor& denominators, double tau);

/// Packs latents and codes once for both.
at::Tensor search_with_grad(const code_search_cuda::Inputs& in, double tau,
                            const code_search_cuda::Found& found);

}  // namespace nsvq::tiles

// The passes by blocked matrix products (blocked/blocked_passes_cuda.cpp).
namespace nsvq::blocked {

void search(const code_search_cuda::Inputs& in, double tau, const code_search_cuda::Found& found);
at::Tensor codebook_grad(const code_search_cuda::Inputs& in, const at::Tensor& indices,
                         const at::Tensor& denominators, double tau);

}  // namespace nsvq::blocked
