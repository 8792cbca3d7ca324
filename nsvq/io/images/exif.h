#pragma once

#include <cstddef>
#include <span>

#include "nsvq/io/images/image.h"

namespace nsvq {

/// The orientation (1-8) in EXIF data: a TIFF header and its first directory, with or without
/// "Exif\0\0" before it. 1 (upright) where there is none or the data is malformed.
int exif_orientation(std::span<const std::byte> exif);

/// Undoes an EXIF orientation: the image as it is to be seen.
Image turn_upright(Image image, int orientation);

}  // namespace nsvq
