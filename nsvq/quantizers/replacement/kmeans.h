#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>

namespace nsvq {

/// Centres [clusters, d] fp32 of points [N, d], on their device: k-means++ on a sample of them,
/// then `iterations` of Lloyd's algorithm with exact search on all. A cluster without points starts
/// anew at a point drawn in proportion to its squared distance from its centre. With no more
/// points than clusters each is a centre, repeated with a little noise. The seed alone decides.
/// `done` is called with the number of iterations that are done.
torch::Tensor kmeans(const torch::Tensor& points, int64_t clusters, int64_t iterations,
                     uint64_t seed, const std::function<void(int64_t)>& done = {});

/// Iterations for a codebook that starts as clusters (quantizer.init: kmeans), as in SoundStream.
inline constexpr int64_t kInitialIterations = 10;

/// RMS per element between each point's centre and the mean of the points with that centre: 0 at a
/// fixed point of Lloyd's algorithm on these points. points [N, d], indices [N], centres [K, d].
double centroid_distance(const torch::Tensor& points, const torch::Tensor& indices,
                         const torch::Tensor& centres);

}  // namespace nsvq
