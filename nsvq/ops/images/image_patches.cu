// A thread makes eight numbers of a row; neighbouring rows read neighbouring pixels.

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include "nsvq/ops/common/vectors.cuh"
#include "nsvq/ops/images/image_patches.h"

namespace nsvq::image_patches_cuda {

namespace {

using vectors::Pack;
using vectors::store;

constexpr int kThreads = 256, kPieces = 4, kPiece = kPatchNumbers / kPieces;

template <typename From>
struct Images {
  const From* first;
  int64_t strides[4];
  int64_t pixels;  ///< of all images
  int channels, height, width;
};

template <typename From, typename To>
__global__ void __launch_bounds__(kThreads) write_patches(Images<From> images, To* rows) {
  const int64_t row =
      static_cast<int64_t>(blockIdx.x) * (kThreads / kPieces) + threadIdx.x / kPieces;
  if (row >= images.pixels) return;
  const int piece = threadIdx.x % kPieces;
  const int x = static_cast<int>(row % images.width);
  const int y = static_cast<int>(row / images.width % images.height);
  const int64_t image = row / images.width / images.height;
  Pack<To, kPiece> numbers{};
#pragma unroll
  for (int i = 0; i < kPiece; ++i) {
    const int tap = piece * kPiece + i, channel = tap / 9;
    const int from_y = y + tap % 9 / 3 - 1, from_x = x + tap % 3 - 1;
    const bool inside = channel < images.channels && from_y >= 0 && from_y < images.height &&
                        from_x >= 0 && from_x < images.width;
    if (!inside) continue;
    const int64_t offset = image * images.strides[0] + channel * images.strides[1] +
                           from_y * images.strides[2] + from_x * images.strides[3];
    numbers.values[i] = static_cast<To>(static_cast<float>(images.first[offset]));
  }
  store(numbers, rows + row * kPatchNumbers + piece * kPiece);
}

/// Calls body(a number of the type).
template <typename Body>
void for_type(at::ScalarType type, Body body) {
  if (type == at::kFloat) return body(float{});
  if (type == at::kHalf) return body(c10::Half{});
  body(c10::BFloat16{});
}

at::Tensor image_patches_cuda(const at::Tensor& images, at::ScalarType type) {
  check_patches(images, type);
  const c10::cuda::CUDAGuard guard(images.device());
  const int64_t pixels = images.size(0) * images.size(2) * images.size(3);
  const int64_t limit = int64_t{1} << 31, blocks = (pixels * kPieces + kThreads - 1) / kThreads;
  TORCH_CHECK(blocks < limit && images.size(2) < limit && images.size(3) < limit,
              "image_patches: too many pixels: ", images.sizes());
  auto rows = at::empty({pixels, kPatchNumbers}, images.options().dtype(type));
  if (pixels == 0) return rows;
  for_type(images.scalar_type(), [&](auto from) {
    using From = decltype(from);
    const Images<From> source{
        .first = images.const_data_ptr<From>(),
        .strides = {images.stride(0), images.stride(1), images.stride(2), images.stride(3)},
        .pixels = pixels,
        .channels = static_cast<int>(images.size(1)),
        .height = static_cast<int>(images.size(2)),
        .width = static_cast<int>(images.size(3))};
    for_type(type, [&](auto to) {
      using To = decltype(to);
      write_patches<From, To><<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
          source, rows.mutable_data_ptr<To>());
      C10_CUDA_KERNEL_LAUNCH_CHECK();
    });
  });
  return rows;
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CUDA, m) { m.impl("image_patches", image_patches_cuda); }

}  // namespace nsvq::image_patches_cuda
