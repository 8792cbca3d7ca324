#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace nsvq {

/// What a Fréchet distance knows of a set of feature vectors. CPU, fp64.
struct Gaussian {
  torch::Tensor mean;        ///< [C]
  torch::Tensor covariance;  ///< [C, C], as np.cov gives it (divided by N - 1)
  int64_t count = 0;         ///< N; 0 where it is not known
  int64_t size = 0;  ///< of the images, all size x size; 0 where they differ or none is known
};

/// Mean and covariance of feature vectors that come in batches. Memory does not grow with their
/// number.
class FrechetStatistics {
 public:
  explicit FrechetStatistics(int64_t channels);

  /// [B, C] of any floating-point type and device; the sums stay on the device of the first batch.
  void add(const torch::Tensor& features);
  int64_t count() const;
  /// Count [1], sum [C] and sum of outer products [C, C] as fp64 on the CPU, to be summed over
  /// processes in place: they are the statistics' own state.
  std::vector<torch::Tensor> sums();

  /// [C]; throws UserError when nothing was added.
  torch::Tensor mean() const;
  /// [C, C]; throws UserError below two vectors.
  torch::Tensor covariance() const;
  Gaussian gaussian() const { return {mean(), covariance(), count(), 0}; }

 private:
  // About shift_, which is near the mean: outer products about zero would lose the digits that a
  // large mean and a small deviation have in common. sums() moves them to zero, which processes
  // share, and loses those digits once and not with every batch.
  torch::Tensor count_, sum_, outer_;
  torch::Tensor shift_;  // [C]
};

/// |m1 - m2|^2 + tr(S1 + S2 - 2 (S1 S2)^(1/2)). Covariances of any rank will do. NaN where a
/// statistic is not finite. Throws UserError where the channels differ.
double frechet_distance(const Gaussian& a, const Gaussian& b);
double frechet_distance(const FrechetStatistics& a, const FrechetStatistics& b);

}  // namespace nsvq
