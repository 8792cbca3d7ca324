#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace nsvq {

/// The mean over splits of the images of exp(mean KL(p(y|x) || p(y))), where p(y) is the mean of a
/// split. Ten neighbours are dealt out to the ten splits in an order that changes from ten to ten,
/// so that sorted classes come to all splits alike.
class InceptionScores {
 public:
  static constexpr int64_t kSplits = 10;

  explicit InceptionScores(int64_t classes);

  /// Logarithms of probabilities [B, classes], fp64; the sums stay on their device.
  void add(const torch::Tensor& log_probabilities);
  /// On the CPU, to be summed over processes in place; each deals its images out by itself.
  std::vector<torch::Tensor> sums();
  void reset();

  /// nullopt below an image for each split.
  std::optional<double> mean() const;
  std::optional<double> deviation() const;

 private:
  torch::Tensor scores() const;

  int64_t seen_ = 0;
  torch::Tensor sums_;  // [splits, classes + 2]: of p, of p log p over classes, and of images
};

}  // namespace nsvq
