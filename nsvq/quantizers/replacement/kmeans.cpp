#include "nsvq/quantizers/replacement/kmeans.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <vector>

#include "nsvq/ops/code_statistics/code_sums.h"
#include "nsvq/ops/code_statistics/code_usage.h"
#include "nsvq/quantizers/codebook.h"
#include "nsvq/quantizers/search.h"

namespace nsvq {

namespace {

struct Nearest {
  torch::Tensor indices;    // [N]
  torch::Tensor distances;  // [N], squared
};

Nearest nearest_centres(const torch::Tensor& points, const torch::Tensor& centres) {
  const auto indices = nearest_indices(points, centres, {}, NonFinite::error);
  return {indices, (points - centres.index_select(0, indices)).square().sum(1)};
}

/// `count` different positions drawn with chances in proportion to weights [N], those of weight
/// zero last: the order of log weight + Gumbel noise.
torch::Tensor draw_weighted(const torch::Tensor& weights, int64_t count,
                            const at::Generator& generator) {
  const auto uniform = at::rand({weights.size(0)}, generator, at::kDouble);
  const auto gumbel = uniform.clamp_min(1e-300).log().neg().log().neg().to(weights.device());
  const auto keys = weights.to(at::kDouble).log() + gumbel;
  return at::argsort(keys, /*stable=*/true, 0, /*descending=*/true).slice(0, 0, count);
}

/// Points that lie apart (k-means++): each is drawn in proportion to its squared distance from
/// those drawn before it. Many are drawn some at a time, so that the rounds stay few.
torch::Tensor spread_centres(const torch::Tensor& points, int64_t clusters,
                             const at::Generator& generator) {
  constexpr int64_t rounds = 128;
  const int64_t at_a_time = (clusters + rounds - 1) / rounds;
  auto weights = at::ones({points.size(0)}, points.options());
  std::vector<torch::Tensor> centres;
  for (int64_t drawn = 0; drawn < clusters;) {
    // The first one alone: nothing is known of distances yet.
    const int64_t count = drawn == 0 ? 1 : std::min(at_a_time, clusters - drawn);
    centres.push_back(points.index_select(0, draw_weighted(weights, count, generator)));
    const auto distances = nearest_centres(points, centres.back()).distances;
    weights = drawn == 0 ? distances : at::minimum(weights, distances);
    drawn += count;
  }
  return at::cat(centres);
}

/// The means of the points of each cluster; a cluster without any gets a point far from its own.
torch::Tensor means(const torch::Tensor& points, const Nearest& nearest, int64_t clusters,
                    const at::Generator& generator) {
  const auto counts = code_usage(nearest.indices, clusters);
  const auto sums = code_sums(points, nearest.indices, clusters);
  const auto empty = counts.eq(0);
  const auto far = draw_weighted(nearest.distances, clusters, generator);
  const auto turn = (empty.cumsum(0) - 1).clamp_min(0);  // of an empty cluster among them
  const auto anew = points.index_select(0, far.index_select(0, turn));
  return at::where(empty.unsqueeze(1), anew, sums / counts.clamp_min(1).unsqueeze(1));
}

}  // namespace

torch::Tensor kmeans(const torch::Tensor& points, int64_t clusters, int64_t iterations,
                     uint64_t seed, const std::function<void(int64_t)>& done) {
  TORCH_CHECK(points.dim() == 2 && points.size(0) > 0,
              "kmeans: points must be [N, d] with N > 0, but they are ", points.sizes());
  TORCH_CHECK(clusters > 0, "kmeans: clusters must be positive, but they are ", clusters);
  const torch::NoGradGuard no_grad;
  const auto all = points.detach().to(at::kFloat).contiguous();
  const int64_t n = all.size(0);
  if (n <= clusters) {
    auto centres = at::empty({clusters, all.size(1)}, all.options());
    sample_codes(centres, all, seed);
    return centres;
  }
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const int64_t sampled = std::min(n, std::max<int64_t>(8 * clusters, 16384));
  const auto rows = at::randperm(n, generator).slice(0, 0, sampled).to(all.device());
  auto centres = spread_centres(all.index_select(0, rows), clusters, generator);
  for (int64_t i = 0; i < iterations; ++i) {
    centres = means(all, nearest_centres(all, centres), clusters, generator);
    if (done) done(i + 1);
  }
  return centres;
}

double centroid_distance(const torch::Tensor& points, const torch::Tensor& indices,
                         const torch::Tensor& centres) {
  constexpr int64_t kPiece = 1 << 16;  // points at a time in fp64
  const auto [used, inverse, counts] = at::_unique2(indices, true, true, true);
  const auto sums = at::zeros({used.size(0), points.size(1)}, points.options().dtype(at::kDouble));
  const auto numbers = inverse.split(kPiece), pieces = points.split(kPiece);
  for (size_t i = 0; i < pieces.size(); ++i) {
    sums.index_add_(0, numbers[i], pieces[i].to(at::kDouble));
  }
  const auto apart = centres.index_select(0, used).to(at::kDouble) - sums / counts.unsqueeze(1);
  const auto squares = (apart.square().sum(1) * counts).sum() / points.numel();
  return squares.sqrt().item<double>();
}

}  // namespace nsvq
