// Search and NS loss without the N x K matrix on a GPU: the operators.
//
// Latents and codes are packed for the matrix units; a first pass finds each latent's candidates
// and sums, a choice among these in fp64 makes the search exact, a second pass gathers the pulls
// (packed.h). On other GPUs than Hopper, below 8 and above 256 dimensions blocked matrix products
// do the same (blocked.h). Nothing waits for the GPU: a latent that is not finite gets index -1 and
// distance, loss and denominator NaN, and so do all if a code is not finite. Such latents pull
// nothing. Where the nearest code's squared distance is beyond fp32, the index is exact all the
// same, but distance and loss are infinite or NaN.
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <tuple>

#include "nsvq/ops/cuda/blocked_bound.h"
#include "nsvq/ops/cuda/streaming_passes.h"

namespace nsvq::streaming_cuda {

namespace {

void check(const char* op, const at::Tensor& latents, const at::Tensor& codebook) {
  TORCH_CHECK(latents.dim() == 2 && codebook.dim() == 2 && latents.size(1) == codebook.size(1), op,
              ": latents must be [N, d] and codebook [K, d], but they are ", latents.sizes(),
              " and ", codebook.sizes());
  TORCH_CHECK(latents.device() == codebook.device(), op, ": latents are on ", latents.device(),
              ", but codebook is on ", codebook.device());
  TORCH_CHECK(codebook.size(0) > 0, op, ": codebook is empty");
  TORCH_CHECK(codebook.size(1) > 0 && codebook.size(1) <= blocked::kMostDimensions, op,
              ": d must be from 1 to ", blocked::kMostDimensions, ", but it is ", codebook.size(1));
  TORCH_CHECK(latents.size(0) < INT32_MAX && codebook.size(0) < INT32_MAX - 256, op,
              ": N and K must be below 2^31");
}

void check_tau(const char* op, double tau) {
  TORCH_CHECK(tau > 0, op, ": tau must be positive, but it is ", tau);
}

std::tuple<at::Tensor, at::Tensor> exact_nearest_codes_cuda(const at::Tensor& latents,
                                                            const at::Tensor& codebook) {
  check("exact_nearest_codes", latents, codebook);
  const c10::cuda::CUDAGuard guard(latents.device());
  const Found found(latents, /*with_loss=*/false);
  if (latents.size(0) > 0) {
    const Inputs in("exact_nearest_codes", latents, codebook);
    search(in, 0, found);
  }
  return {found.indices, found.distances};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> ns_search_cuda(
    const at::Tensor& latents, const at::Tensor& codebook, double tau) {
  check("ns_search", latents, codebook);
  check_tau("ns_search", tau);
  const c10::cuda::CUDAGuard guard(latents.device());
  const Found found(latents, /*with_loss=*/true);
  if (latents.size(0) > 0) {
    const Inputs in("ns_search", latents, codebook);
    search(in, tau, found);
  }
  return {found.indices, found.distances, found.losses, found.denominators};
}

at::Tensor ns_pull_cuda(const at::Tensor& latents, const at::Tensor& codebook,
                        const at::Tensor& indices, const at::Tensor& denominators, double tau) {
  check("ns_pull", latents, codebook);
  check_tau("ns_pull", tau);
  TORCH_CHECK(indices.scalar_type() == at::kLong && indices.numel() == latents.size(0),
              "ns_pull: indices must be int64 [N] with N = ", latents.size(0), ", but they are ",
              indices.scalar_type(), " ", indices.sizes());
  TORCH_CHECK(denominators.scalar_type() == at::kFloat && denominators.numel() == latents.size(0),
              "ns_pull: denominators must be fp32 [N] with N = ", latents.size(0),
              ", but they are ", denominators.scalar_type(), " ", denominators.sizes());
  const c10::cuda::CUDAGuard guard(latents.device());
  if (latents.size(0) == 0) {
    return at::zeros(codebook.sizes(), codebook.options().dtype(at::kFloat));
  }
  const Inputs in("ns_pull", latents, codebook);
  return pull(in, indices.contiguous(), denominators.contiguous(), tau);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> ns_search_pull_cuda(
    const at::Tensor& latents, const at::Tensor& codebook, double tau) {
  check("ns_search_pull", latents, codebook);
  check_tau("ns_search_pull", tau);
  const c10::cuda::CUDAGuard guard(latents.device());
  const Found found(latents, /*with_loss=*/true);
  if (latents.size(0) == 0) {
    return {found.indices, found.distances, found.losses, found.denominators,
            at::zeros(codebook.sizes(), codebook.options().dtype(at::kFloat))};
  }
  const Inputs in("ns_search_pull", latents, codebook);
  const auto pulls = search_and_pull(in, tau, found);
  return {found.indices, found.distances, found.losses, found.denominators, pulls};
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CUDA, m) {
  m.impl("exact_nearest_codes", exact_nearest_codes_cuda);
  m.impl("ns_search", ns_search_cuda);
  m.impl("ns_pull", ns_pull_cuda);
  m.impl("ns_search_pull", ns_search_pull_cuda);
}

}  // namespace nsvq::streaming_cuda
