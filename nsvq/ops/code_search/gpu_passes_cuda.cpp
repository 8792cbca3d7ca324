#include "nsvq/ops/code_search/gpu_passes.h"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/zeros.h>

namespace nsvq::code_search_cuda {

namespace {

/// The tensor as fp32 (bf16 and fp16 convert exactly), contiguous and aligned for 16-byte loads.
at::Tensor prepare(const char* op, const char* name, const at::Tensor& tensor) {
  TORCH_CHECK(tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kHalf ||
                  tensor.scalar_type() == at::kBFloat16,
              op, ": ", name, " must be fp32, bf16 or fp16, but it is ", tensor.scalar_type());
  const auto values = tensor.to(at::kFloat).contiguous();
  const auto address = reinterpret_cast<uintptr_t>(values.const_data_ptr<float>());
  return address % 16 == 0 ? values : values.clone();
}

}  // namespace

Inputs::Inputs(const char* op, const at::Tensor& given_latents, const at::Tensor& codebook)
    : z(prepare(op, "latents", given_latents)),
      c(prepare(op, "codebook", codebook)),
      dimension(z.size(1)),
      path(choose_gpu_path(op, dimension)),
      stream(at::cuda::getCurrentCUDAStream()),
      processors(at::cuda::getCurrentDeviceProperties()->multiProcessorCount),
      shared_limit(search_shared_limit()),
      centre(at::empty({dimension}, z.options())),
      counters(at::zeros({path == GpuPath::blocked ? 8 : 8 + Crowds::kCounts + 2 * c.size(0)},
                         z.options().dtype(at::kInt))) {
  measure_values(latents(), codes(), dimension, centre.mutable_data_ptr<float>(), range(),
                 processors, stream);
}

Found::Found(const at::Tensor& latents, bool with_loss) {
  const auto options = latents.options().dtype(at::kFloat);
  indices = at::empty({latents.size(0)}, options.dtype(at::kLong));
  distances = at::empty({latents.size(0)}, options);
  if (!with_loss) return;
  losses = at::empty({latents.size(0)}, options);
  denominators = at::empty({latents.size(0)}, options);
}

Results Found::results() const {
  return {indices.mutable_data_ptr<int64_t>(), distances.mutable_data_ptr<float>(),
          losses.defined() ? losses.mutable_data_ptr<float>() : nullptr,
          losses.defined() ? denominators.mutable_data_ptr<float>() : nullptr};
}

void search(const Inputs& in, double tau, const Found& found) {
  if (in.path == GpuPath::blocked) {
    blocked::search(in, tau, found);
  } else {
    tiles::search(in, tau, found);
  }
}

at::Tensor codebook_grad(const Inputs& in, const at::Tensor& indices,
                         const at::Tensor& denominators, double tau) {
  if (in.path == GpuPath::blocked) {
    return blocked::codebook_grad(in, indices, denominators, tau);
  }
  return tiles::codebook_grad(in, indices, denominators, tau);
}

at::Tensor search_with_grad(const Inputs& in, double tau, const Found& found) {
  if (in.path != GpuPath::blocked) return tiles::search_with_grad(in, tau, found);
  blocked::search(in, tau, found);
  return blocked::codebook_grad(in, found.indices, found.denominators, tau);
}

}  // namespace nsvq::code_search_cuda
