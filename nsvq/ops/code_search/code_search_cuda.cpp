// The operators of code_search.h, which says what they keep to, on a GPU: registration and checks.
//
// Latents and codes are packed into fp16 tiles for the tensor cores. A first pass over all pairs
// finds each latent's candidates and softmax sums, reranking the candidates in fp64 makes the
// search exact, and a second pass sums the gradient for the codebook (gpu_passes.h, hopper/, and
// sm80/ for GPUs other than Hopper). d below 8 or above 256 uses blocked matrix products
// (blocked/).
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <tuple>

#include "nsvq/ops/code_search/blocked/blocked_bound.h"
#include "nsvq/ops/code_search/gpu_passes.h"
#include "nsvq/ops/common/check_codes.h"

namespace nsvq::code_search_cuda {

namespace {

void check_sizes(const char* op, const at::Tensor& latents, const at::Tensor& codebook) {
  check_codes(op, latents, codebook);
  TORCH_CHECK(codebook.size(1) > 0 && codebook.size(1) <= blocked::kMostDimensions, op,
              ": d must be from 1 to ", blocked::kMostDimensions, ", but it is ", codebook.size(1));
  TORCH_CHECK(latents.size(0) < INT32_MAX && codebook.size(0) < INT32_MAX - 256, op,
              ": N and K must be below 2^31");
}

std::tuple<at::Tensor, at::Tensor> nearest_codes_cuda(const at::Tensor& latents,
                                                      const at::Tensor& codebook) {
  check_sizes("nearest_codes", latents, codebook);
  const c10::cuda::CUDAGuard guard(latents.device());
  const Found found(latents, /*with_loss=*/false);
  if (latents.size(0) > 0) {
    const Inputs in("nearest_codes", latents, codebook);
    search(in, 0, found);
  }
  return {found.indices, found.distances};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> ns_search_cuda(
    const at::Tensor& latents, const at::Tensor& codebook, double tau) {
  check_sizes("ns_search", latents, codebook);
  check_tau("ns_search", tau);
  const c10::cuda::CUDAGuard guard(latents.device());
  const Found found(latents, /*with_loss=*/true);
  if (latents.size(0) > 0) {
    const Inputs in("ns_search", latents, codebook);
    search(in, tau, found);
  }
  return {found.indices, found.distances, found.losses, found.denominators};
}

at::Tensor ns_codebook_grad_cuda(const at::Tensor& latents, const at::Tensor& codebook,
                                 const at::Tensor& indices, const at::Tensor& denominators,
                                 double tau) {
  check_sizes("ns_codebook_grad", latents, codebook);
  check_tau("ns_codebook_grad", tau);
  check_indices("ns_codebook_grad", indices, latents);
  TORCH_CHECK(denominators.scalar_type() == at::kFloat && denominators.numel() == latents.size(0),
              "ns_codebook_grad: denominators must be fp32 [N] with N = ", latents.size(0),
              ", but they are ", denominators.scalar_type(), " ", denominators.sizes());
  const c10::cuda::CUDAGuard guard(latents.device());
  if (latents.size(0) == 0) {
    return at::zeros(codebook.sizes(), codebook.options().dtype(at::kFloat));
  }
  const Inputs in("ns_codebook_grad", latents, codebook);
  return codebook_grad(in, indices.contiguous(), denominators.contiguous(), tau);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> ns_search_with_grad_cuda(
    const at::Tensor& latents, const at::Tensor& codebook, double tau) {
  check_sizes("ns_search_with_grad", latents, codebook);
  check_tau("ns_search_with_grad", tau);
  const c10::cuda::CUDAGuard guard(latents.device());
  const Found found(latents, /*with_loss=*/true);
  if (latents.size(0) == 0) {
    return {found.indices, found.distances, found.losses, found.denominators,
            at::zeros(codebook.sizes(), codebook.options().dtype(at::kFloat))};
  }
  const Inputs in("ns_search_with_grad", latents, codebook);
  const auto grads = search_with_grad(in, tau, found);
  return {found.indices, found.distances, found.losses, found.denominators, grads};
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CUDA, m) {
  m.impl("nearest_codes", nearest_codes_cuda);
  m.impl("ns_search", ns_search_cuda);
  m.impl("ns_codebook_grad", ns_codebook_grad_cuda);
  m.impl("ns_search_with_grad", ns_search_with_grad_cuda);
}

}  // namespace nsvq::code_search_cuda
