#include "nsvq/ops/code_search/ns_loss.h"

#include "nsvq/ops/code_search/code_search_reference.h"

namespace nsvq {

torch::Tensor ns_loss(const torch::Tensor& latents, const torch::Tensor& codebook,
                      const torch::Tensor& indices, double tau) {
  TORCH_CHECK(tau > 0, "ns_loss: tau must be positive, but it is ", tau);
  TORCH_CHECK(indices.dim() == 1 && indices.size(0) == latents.size(0),
              "ns_loss: indices must be [N] with N = ", latents.size(0), ", but they are ",
              indices.sizes());
  if (latents.numel() == 0) return codebook.sum() * 0;
  const auto distances = squared_distances(latents.detach(), codebook);
  const auto weights =
      at::softmax(distances.detach() / -tau, 1).scatter(1, indices.unsqueeze(1), 0);
  return (weights * distances).sum() / latents.numel();
}

}  // namespace nsvq
