#include "nsvq/nn/time_embedding.h"

#include <cmath>

namespace nsvq {

torch::Tensor time_embedding(const torch::Tensor& times, int64_t width) {
  TORCH_CHECK(times.dim() == 1, "time_embedding: times must be [B], but they are ", times.sizes());
  TORCH_CHECK(width > 0 && width % 2 == 0, "time_embedding: the width must be even, but it is ",
              width);
  // fp32 angles of times near 1,000 would be off by 3e-5.
  const auto wide = times.options().dtype(at::kDouble);
  const int64_t waves = width / 2;
  const auto frequencies =
      at::exp(at::arange(waves, wide) * (-std::log(1e4) / static_cast<double>(waves)));
  const auto angles = times.to(at::kDouble).unsqueeze(1) * frequencies;
  return at::cat({angles.cos(), angles.sin()}, 1);
}

}  // namespace nsvq
