// silu(gate) * up in one pass, 8 adjacent channels a thread.

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include "nsvq/ops/common/grid.h"
#include "nsvq/ops/common/vectors.cuh"
#include "nsvq/ops/transformer/swiglu_inference.h"

namespace nsvq::swiglu_inference_cuda {

namespace {

using vectors::load;
using vectors::Pack;
using vectors::store;
using vectors::unpack;
using Value = c10::BFloat16;

constexpr int kThreads = 256, kVector = 8;

/// Rows of `packs` packs; those of the inputs lie `gate_step` and `up_step` numbers apart.
__global__ void __launch_bounds__(kThreads)
    swiglu(const Value* __restrict__ gate, int64_t gate_step, const Value* __restrict__ up,
           int64_t up_step, int64_t rows, unsigned packs, Value* __restrict__ result) {
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  const int64_t row = i / packs, channel = (i - row * packs) * kVector;
  if (row >= rows) return;
  float g[kVector], u[kVector];
  unpack(load<kVector>(gate + row * gate_step + channel), g);
  unpack(load<kVector>(up + row * up_step + channel), u);
  Pack<Value, kVector> y;
#pragma unroll
  for (int v = 0; v < kVector; ++v) {
    y.values[v] = static_cast<Value>(g[v] / (1 + __expf(-g[v])) * u[v]);
  }
  store(y, result + i * kVector);
}

/// [rows, C] of the same numbers, which have to begin at 16 bytes and lie by as many.
at::Tensor as_rows(const at::Tensor& x) {
  const auto rows = x.reshape({-1, x.size(-1)});
  const bool aligned = rows.stride(1) == 1 && rows.stride(0) % kVector == 0 &&
                       reinterpret_cast<uintptr_t>(rows.const_data_ptr()) % 16 == 0;
  return aligned ? rows : rows.clone(at::MemoryFormat::Contiguous);
}

at::Tensor swiglu_cuda(const at::Tensor& gate, const at::Tensor& up) {
  check_swiglu_inference(gate, up);
  const c10::cuda::CUDAGuard guard(gate.device());
  auto result = at::empty(gate.sizes(), gate.options());
  if (result.numel() == 0) return result;
  const auto gates = as_rows(gate), ups = as_rows(up);
  const int64_t packs = gate.size(-1) / kVector;
  const auto blocks = static_cast<unsigned>(divided(gates.size(0) * packs, kThreads));
  swiglu<<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      gates.const_data_ptr<Value>(), gates.stride(0), ups.const_data_ptr<Value>(), ups.stride(0),
      gates.size(0), static_cast<unsigned>(packs), result.mutable_data_ptr<Value>());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CUDA, m) { m.impl("swiglu_inference", swiglu_cuda); }

}  // namespace nsvq::swiglu_inference_cuda
