// Bits for dropout: a thread draws those of eight values, 16 random bits for each, of one call of
// torch's generator, which a captured CUDA graph advances at each replay.
#include <c10/util/Exception.h>  // PhiloxRNGEngine.h needs it

#include <ATen/core/PhiloxRNGEngine.h>
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>
#include <ATen/cuda/PhiloxUtils.cuh>

#include <mutex>
#include <tuple>

#include "nsvq/ops/common/grid.h"
#include "nsvq/ops/transformer/kept_bits.h"

namespace nsvq::transformer_cuda {

namespace {

constexpr int kBitThreads = 256;
constexpr uint64_t kNumbersOfACall = 4;

__global__ void __launch_bounds__(kBitThreads)
    bits_kernel(at::PhiloxCudaState state, unsigned dropped, int64_t bytes,
                uint8_t* __restrict__ bits) {
  const int64_t place = static_cast<int64_t>(blockIdx.x) * kBitThreads + threadIdx.x;
  if (place >= bytes) return;
  const auto [seed, offset] = at::cuda::philox::unpack(state);
  at::philox_engine engine(seed, static_cast<uint64_t>(place), offset / kNumbersOfACall);
  unsigned byte = 0;
#pragma unroll
  for (int pair = 0; pair < 4; ++pair) {
    const uint32_t number = engine();
    byte |= static_cast<unsigned>((number & 0xffffu) >= dropped) << (2 * pair);
    byte |= static_cast<unsigned>((number >> 16) >= dropped) << (2 * pair + 1);
  }
  bits[place] = static_cast<uint8_t>(byte);
}

at::PhiloxCudaState next_numbers() {
  auto* generator = at::get_generator_or_default<at::CUDAGeneratorImpl>(
      std::nullopt, at::cuda::detail::getDefaultCUDAGenerator());
  const std::lock_guard lock(generator->mutex_);
  return generator->philox_cuda_state(kNumbersOfACall);
}

at::Tensor kept_bits_gpu(const at::Tensor& values, double share) {
  check_kept_bits(values, share);
  const c10::cuda::CUDAGuard guard(values.device());
  auto shape = values.sizes().vec();
  shape.back() /= 8;
  auto bits = at::empty(shape, values.options().dtype(at::kByte));
  if (bits.numel() == 0) return bits;
  const auto dropped = static_cast<unsigned>(dropped_share(share) * 65536);
  bits_kernel<<<static_cast<unsigned>(divided(bits.numel(), kBitThreads)), kBitThreads, 0,
                at::cuda::getCurrentCUDAStream()>>>(next_numbers(), dropped, bits.numel(),
                                                    bits.mutable_data_ptr<uint8_t>());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return bits;
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CUDA, m) { m.impl("kept_bits", kept_bits_gpu); }

}  // namespace nsvq::transformer_cuda
