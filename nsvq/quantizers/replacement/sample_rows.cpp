#include "nsvq/quantizers/replacement/sample_rows.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "nsvq/ops/random/seeded_random.h"
#include "nsvq/ops/soft_assignment/row_chunks.h"

namespace nsvq {

torch::Tensor sample_rows(const torch::Tensor& rows, int64_t count, const torch::Tensor& seed) {
  return sample_rows(rows, count, seed, *make_single_group());
}

torch::Tensor sample_rows(const torch::Tensor& rows, int64_t count, const torch::Tensor& seed,
                          Group& group) {
  const int64_t own = rows.size(0), n = own * group.size();
  TORCH_CHECK(n > 0, "sample_rows: there are no rows to draw from");
  const int64_t copies = (count + n - 1) / n;
  // An order by random keys: at::randperm may wait for the device.
  const auto keys = uniform_values(seed, /*draw=*/0, copies * n);
  const auto order = at::argsort(keys, /*stable=*/true).slice(0, 0, count).remainder(n);
  auto drawn = rows.index_select(0, order.remainder(own));
  if (group.size() > 1) {
    const auto mine = at::floor_divide(order, own).eq(group.rank()).unsqueeze(1);
    drawn = at::where(mine, drawn, at::zeros_like(drawn));
    group.sum({drawn});  // of one value and zeros: exact
  }
  if (copies <= 1) return drawn;
  const double deviation = 0.01 / std::sqrt(static_cast<double>(rows.size(1)));
  const auto noise = normal_values(seed, /*draw=*/1, drawn.numel()).view_as(drawn);
  return drawn + noise.to(drawn.scalar_type()) * deviation;
}

torch::Tensor sample_by_distance(const torch::Tensor& codebook, const torch::Tensor& latents,
                                 const torch::Tensor& seed) {
  const torch::NoGradGuard no_grad;
  const int64_t n = latents.size(0), codes = codebook.size(0);
  TORCH_CHECK(n > 0, "sample_by_distance: there are no latents to draw from");
  const auto lengths = latents.square().sum(1).neg().unsqueeze(0);  // |c|^2 does not change shares
  std::vector<torch::Tensor> drawn;
  const int64_t chunk = rows_at_a_time(n);
  for (int64_t first = 0; first < codes; first += chunk) {
    const auto part = codebook.slice(0, first, std::min(first + chunk, codes));
    const auto logits = at::addmm(lengths, part, latents.t(), /*beta=*/1, /*alpha=*/2);
    // The largest of logits with Gumbel noise is a draw from their softmax.
    const auto noise = gumbel_values(seed, first * n, logits.numel()).view_as(logits);
    drawn.push_back((logits + noise).argmax(1));
  }
  return at::cat(drawn);
}

}  // namespace nsvq
