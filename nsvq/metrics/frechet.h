#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <vector>

namespace nsvq {

/// Mean and covariance of a set of feature vectors. CPU, fp64.
struct Gaussian {
  torch::Tensor mean;        ///< [C]
  torch::Tensor covariance;  ///< [C, C], divided by N - 1 as by np.cov
  int64_t count = 0;         ///< N; 0 where unknown
  int64_t size = 0;          ///< images are size x size; 0 where they differ or it is unknown
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

/// Statistics in the format of pytorch-fid: an .npz file with `mu` [C] and `sigma` [C, C]. Ours
/// hold `image_count` [1] and `image_size` [1] too. Writing is atomic and throws RunError. Reading
/// throws UserError, naming the file, for anything else than finite numbers of these shapes.
void write_gaussian(const std::filesystem::path& path, const Gaussian& gaussian);
Gaussian read_gaussian(const std::filesystem::path& path);

}  // namespace nsvq
