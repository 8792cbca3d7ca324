#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "nsvq/data/images/transform.h"

namespace nsvq {

/// A part of an image that is tokenized by itself.
struct Variant {
  std::string name;  ///< in the manifest
  bool mirrored = false;
  int64_t top = 0, left = 0;  ///< of the mirrored image, if it is
};

/// What each image has tokens of.
struct Variants {
  std::vector<Variant> all = {};  ///< empty: the image alone
  int64_t height = 0, width = 0;  ///< of each

  std::vector<std::string> names() const;
  /// A variant of images [B, 3, H, W], [B, 3, height, width].
  torch::Tensor cut(const torch::Tensor& images, const Variant& variant) const;
};

/// Images of 1.1 times the size, rounded down: what ten crops are cut from.
TransformOptions enlarged(TransformOptions transform);
/// Corners and centre of enlarged images, then those of their mirror images, in the order of
/// torchvision's TenCrop. `transform` is that of a crop.
Variants ten_crops(const TransformOptions& transform);
/// Each image and its mirror image.
Variants with_mirror_image(const TransformOptions& transform);

/// The variant that stands for an image, by the names of all: the centre, else the first.
int64_t central_variant(const std::vector<std::string>& names);

}  // namespace nsvq
