#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace nsvq {

/// Images that a discriminator judges in a step. Each group has random numbers of its own.
enum class Judged : int64_t {
  by_generator = 0,     ///< reconstructions, in the generator's term
  images = 1,           ///< real ones, in the discriminator's loss
  reconstructions = 2,  ///< in the discriminator's loss
};

/// Names that adversarial.augment takes, "none" first.
std::vector<std::string> augmentation_names();

/// Differentiable random changes of images [B, 3, H, W] in [-1, 1] (DiffAugment, Zhao et al. 2020),
/// those of `names` in this order; u are uniform numbers, each image its own:
///   flip    left and right swapped where u < 1/2
///   colour  x + u - 1/2, then saturation times 2 u (0..2), then contrast times u + 1/2 (0.5..1.5),
///           about the pixel's and the image's mean
///   shift   by up to an eighth of the side each way, zeros (grey) behind
///   cutout  a square of half the side around a random pixel is zero
/// `seed` is an int64 on the images' device; the images are those from number `first` on of all
/// that the step draws for, so that the draws do not depend on ranks or passes.
torch::Tensor augmented(const torch::Tensor& images, const std::vector<std::string>& names,
                        const torch::Tensor& seed, int64_t first, Judged judged);

}  // namespace nsvq
