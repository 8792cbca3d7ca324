#pragma once

#include <c10/core/Device.h>
#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace nsvq {

/// Standard normal noise of images: a number depends on the seed, the image's index, the draw and
/// its position in the image alone, so that image i of a seed is the same in every batch and on
/// every rank.
class ImageNoise {
 public:
  /// `shape` [C, h, w] of one image; noise comes on `device`.
  ImageNoise(int64_t seed, const std::vector<int64_t>& indices, std::vector<int64_t> shape,
             c10::Device device);

  /// [images, C, h, w] fp32; another `draw` is independent of it.
  torch::Tensor draw(int64_t draw) const;

 private:
  torch::Tensor seeds_;  ///< [images] int64
  std::vector<int64_t> shape_;
};

}  // namespace nsvq
