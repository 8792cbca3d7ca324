#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/metrics/metric.h"
#include "nsvq/metrics/sets/feature_extractor.h"

namespace nsvq {

/// Mean and covariance of a set of feature vectors. CPU, fp64.
struct Gaussian {
  torch::Tensor mean;        ///< [C]
  torch::Tensor covariance;  ///< [C, C], divided by N - 1 as by np.cov
  int64_t count = 0;         ///< N; 0 where unknown
  int64_t size = 0;          ///< images are size x size; 0 where they differ or it is unknown
  std::optional<InceptionResize> resize = std::nullopt;  ///< of the images, where it is known
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
  Gaussian gaussian() const { return {mean(), covariance(), count(), 0, std::nullopt}; }

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

/// The arrays of a metric in an .npz file of statistics: `mu` [C] and `sigma` [C, C] as pytorch-fid
/// has them, for sfid `mu_s` and `sigma_s` as the files of ADM's evaluator do.
struct GaussianArrays {
  std::string mean = "mu", covariance = "sigma";
};
GaussianArrays gaussian_arrays(const std::string& metric);

/// Statistics by metric, of the same images. The file holds `image_count` [1] and `image_size` [1]
/// too, and `tensorflow_resize` [1] where images were resized so. Atomic. Throws RunError.
void write_gaussians(const std::filesystem::path& path,
                     const std::map<std::string, Gaussian>& gaussians);
/// Throws UserError, naming the file, for anything else than finite numbers of these shapes.
Gaussian read_gaussian(const std::filesystem::path& path, const std::string& metric = "fid");

/// The Fréchet distance between images and reconstructions as sets: a batch may have either alone.
/// nullopt below two of each. A `reference` replaces the images, which are then not read; where its
/// images have another size than the reconstructions, a line in the log says so.
class FrechetMetric : public Metric {
 public:
  /// Throws UserError where the reference has another number of features.
  explicit FrechetMetric(FeatureExtractor extractor,
                         std::shared_ptr<const Gaussian> reference = nullptr);
  void add(const EvalBatch& batch) override;
  std::vector<torch::Tensor> sums() override;
  std::optional<double> value() const override;
  std::shared_ptr<const Gaussian> image_statistics() const override;
  void know_images(std::shared_ptr<const Gaussian> statistics) override;

  /// Statistics of the images so far. Throws UserError below two.
  Gaussian images() const { return images_.gaussian(); }

 private:
  void add(const torch::Tensor& images, FrechetStatistics& to);
  void note_other_size(const torch::Tensor& reconstructions);

  FeatureExtractor extractor_;
  std::shared_ptr<const Gaussian> reference_;
  std::shared_ptr<const Gaussian> known_;  ///< of the images, by an earlier measurement
  FrechetStatistics images_, reconstructions_;
  bool noted_ = false;  // the line about a different size was written
};

}  // namespace nsvq
