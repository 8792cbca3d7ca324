// Copies in both directions without a bias, in pieces of as many bytes as all runs allow.

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include "nsvq/ops/images/depth_to_space.cuh"

namespace nsvq::depth_to_space_cuda {

namespace {

/// Copies a row of the wide image, by a block; `run` pieces make a pixel of it.
template <typename Piece, bool to_wide>
__global__ void __launch_bounds__(kThreads)
    rearrange(const Piece* __restrict__ from, Piece* __restrict__ to, int run, Image wide) {
  const Row row(wide, run);
  for (int at = threadIdx.x; at < row.pieces; at += kThreads) {
    const int64_t deep = row.deep(at);
    if constexpr (to_wide) {
      to[row.wide_start + at] = from[deep];
    } else {
      to[deep] = from[row.wide_start + at];
    }
  }
}

template <typename Piece, bool to_wide>
void launch(const at::Tensor& from, const at::Tensor& to, int64_t run_bytes, const Image& wide) {
  const int64_t run = run_bytes / static_cast<int64_t>(sizeof(Piece));
  check_sizes(wide, run);
  rearrange<Piece, to_wide>
      <<<wide.images * wide.height, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
          static_cast<const Piece*>(from.const_data_ptr()),
          static_cast<Piece*>(to.mutable_data_ptr()), static_cast<int>(run), wide);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <bool to_wide>
void copy_runs(const at::Tensor& from, const at::Tensor& to, const Image& wide) {
  if (to.numel() == 0) return;
  const int64_t bytes = wide.channels * static_cast<int64_t>(to.element_size());
  const auto fits = [&](int64_t piece) {
    const auto aligned = [&](const void* p) { return reinterpret_cast<uintptr_t>(p) % piece == 0; };
    return bytes % piece == 0 && aligned(from.const_data_ptr()) && aligned(to.const_data_ptr());
  };
  if (fits(16)) return launch<uint4, to_wide>(from, to, bytes, wide);
  if (fits(8)) return launch<uint2, to_wide>(from, to, bytes, wide);
  if (fits(4)) return launch<uint32_t, to_wide>(from, to, bytes, wide);
  return launch<uint16_t, to_wide>(from, to, bytes, wide);
}

at::Tensor channels_last_like(const at::Tensor& x, at::IntArrayRef sizes) {
  TORCH_CHECK(x.element_size() >= 2, "depth_to_space: needs numbers of 2 bytes at least, got ",
              x.scalar_type());
  return at::empty(sizes, x.options(), at::MemoryFormat::ChannelsLast);
}

at::Tensor depth_to_space_cuda(const at::Tensor& x) {
  TORCH_CHECK(x.dim() == 4 && x.size(1) % 4 == 0, "depth_to_space: needs [B, 4C, H, W], got ",
              x.sizes());
  const c10::cuda::CUDAGuard guard(x.device());
  const Image wide{x.size(0), x.size(1) / 4, x.size(2) * 2, x.size(3) * 2};
  auto out = channels_last_like(x, {wide.images, wide.channels, wide.height, wide.width});
  copy_runs<true>(x.contiguous(at::MemoryFormat::ChannelsLast), out, wide);
  return out;
}

at::Tensor space_to_depth_cuda(const at::Tensor& x) {
  TORCH_CHECK(x.dim() == 4 && x.size(2) % 2 == 0 && x.size(3) % 2 == 0,
              "space_to_depth: needs [B, C, 2H, 2W], got ", x.sizes());
  const c10::cuda::CUDAGuard guard(x.device());
  const Image wide{x.size(0), x.size(1), x.size(2), x.size(3)};
  auto out =
      channels_last_like(x, {wide.images, wide.channels * 4, wide.height / 2, wide.width / 2});
  copy_runs<false>(x.contiguous(at::MemoryFormat::ChannelsLast), out, wide);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CUDA, m) {
  m.impl("depth_to_space", depth_to_space_cuda);
  m.impl("space_to_depth", space_to_depth_cuda);
}

}  // namespace nsvq::depth_to_space_cuda
