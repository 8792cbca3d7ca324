#pragma once

#include "nsvq/io/image.h"

namespace nsvq {

/// How a picture of any size becomes one that a model takes, with sides that its stride divides.
enum class Fit {
  resize,  ///< each side to the nearest multiple of the stride
  crop,    ///< the centre, each side cut to a multiple
  pad,     ///< mirrored at the right and at the bottom up to a multiple; `cut` takes it off again
};

/// Throws UserError for an empty picture, and for one that cropping would leave nothing of.
Image fit_to_stride(const Image& image, Fit fit, int stride);

/// The upper left width x height of a picture at least that large.
Image cut(const Image& image, int width, int height);

}  // namespace nsvq
