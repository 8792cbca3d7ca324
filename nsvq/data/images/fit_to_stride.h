#pragma once

#include "nsvq/io/images/image.h"

namespace nsvq {

/// How an image of any size gets sides that are multiples of the model's stride.
enum class Fit {
  resize,  ///< each side to the nearest multiple of the stride
  crop,    ///< centre crop, each side down to a multiple
  pad,     ///< reflection at the right and the bottom, up to a multiple; `cut` undoes it
};

/// Throws UserError for an empty image, and if cropping would leave no pixel.
Image fit_to_stride(const Image& image, Fit fit, int stride);

/// The top left width x height pixels. Throws UserError if the image is smaller.
Image crop_corner(const Image& image, int width, int height);

}  // namespace nsvq
