#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace nsvq {

/// The PSNR, as the metric psnr has it, of pictures that all have one colour, the mean of all
/// images: what a model reaches that has learnt nothing of a single image.
class GreyPicture {
 public:
  /// `images` in the source.
  explicit GreyPicture(int64_t images) : moments_(at::zeros({images, 5}, at::kDouble)) {}

  /// Images [B, 3, H, W] in [-1, 1], all of one size, on any device, and their positions in the
  /// source.
  void add(const torch::Tensor& images, const std::vector<int64_t>& positions);
  /// [images, 5] fp64, to be summed over ranks in place.
  torch::Tensor sums() { return moments_; }
  /// NaN without images.
  double psnr() const;

 private:
  torch::Tensor moments_;  ///< of each image: 1 if it was added, mean square, means of the channels
};

}  // namespace nsvq
