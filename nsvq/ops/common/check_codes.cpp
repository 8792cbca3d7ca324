#include "nsvq/ops/common/check_codes.h"

namespace nsvq {

void check_code_shapes(const char* op, const at::Tensor& latents, const at::Tensor& codebook) {
  TORCH_CHECK(latents.dim() == 2 && codebook.dim() == 2 && latents.size(1) == codebook.size(1), op,
              ": latents must be [N, d] and codebook [K, d], but they are ", latents.sizes(),
              " and ", codebook.sizes());
  TORCH_CHECK(latents.device() == codebook.device(), op, ": latents are on ", latents.device(),
              ", but codebook is on ", codebook.device());
}

void check_codes(const char* op, const at::Tensor& latents, const at::Tensor& codebook) {
  check_code_shapes(op, latents, codebook);
  TORCH_CHECK(codebook.size(0) > 0, op, ": codebook is empty");
}

void check_indices(const char* op, const at::Tensor& indices, const at::Tensor& latents) {
  TORCH_CHECK(indices.scalar_type() == at::kLong && indices.dim() == 1 &&
                  indices.sym_size(0) == latents.sym_size(0),
              op, ": indices must be int64 [N] with N = ", latents.sym_size(0), ", but they are ",
              indices.scalar_type(), " ", indices.sym_sizes());
}

void check_tau(const char* op, double tau) {
  TORCH_CHECK(tau > 0, op, ": tau must be positive, but it is ", tau);
}

}  // namespace nsvq
