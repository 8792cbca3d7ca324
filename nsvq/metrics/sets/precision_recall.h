#pragma once

#include <torch/types.h>

#include <cstdint>

namespace nsvq {

// Improved precision and recall (Kynkäänniemi et al., 2019): the manifold of a set of vectors is
// made of balls, one about each vector, as wide as the distance to its k-th nearest neighbour. In
// fp64, in blocks of `block` x `block` distances. Vectors [N, C] are finite and of any device.

constexpr int64_t kManifoldNeighbours = 3;
constexpr int64_t kDistanceBlock = 2048;

/// The squared radius of each ball [N] fp64, for more vectors than `neighbours`.
torch::Tensor squared_radii(const torch::Tensor& vectors, int64_t neighbours = kManifoldNeighbours,
                            int64_t block = kDistanceBlock);

/// Which of `vectors` [M, C] lie in a ball about one of `centres` [N, C] with these squared radii,
/// its surface included: [M] bool. Distances that differ by less than their rounding count as
/// equal.
torch::Tensor inside_any(const torch::Tensor& vectors, const torch::Tensor& centres,
                         const torch::Tensor& radii, int64_t block = kDistanceBlock);

}  // namespace nsvq
