#include "nsvq/quantizers/sample_rows.h"

#include <cmath>

#include "nsvq/ops/random/seeded_random.h"

namespace nsvq {

torch::Tensor sample_rows(const torch::Tensor& rows, int64_t count, const torch::Tensor& seed) {
  const int64_t n = rows.size(0);
  TORCH_CHECK(n > 0, "sample_rows: there are no rows to draw from");
  const int64_t copies = (count + n - 1) / n;
  // An order by random keys: at::randperm may wait for the device.
  const auto keys = uniform_values(seed, /*draw=*/0, copies * n);
  const auto order = at::argsort(keys, /*stable=*/true).slice(0, 0, count);
  const auto drawn = rows.index_select(0, order.remainder(n));
  if (copies <= 1) return drawn;
  const double deviation = 0.01 / std::sqrt(static_cast<double>(rows.size(1)));
  const auto noise = normal_values(seed, /*draw=*/1, drawn.numel()).view_as(drawn);
  return drawn + noise.to(drawn.scalar_type()) * deviation;
}

}  // namespace nsvq
