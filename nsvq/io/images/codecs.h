#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "nsvq/io/images/image.h"

namespace nsvq {

// One format each; decode_image (image.h) tells them apart.

/// Decodes a JPEG to upright RGB. Throws UserError, also for data that libjpeg would pad with grey,
/// and for arithmetic coding, whose decoder makes up pixels where data ends.
Image decode_jpeg(std::span<const std::byte> bytes, const std::string& name,
                  const ImageLimits& limits = {});

/// `quality` from 1 to 100, with 4:2:0 chroma.
std::vector<std::byte> encode_jpeg(const Image& image, int quality);

/// Decodes a PNG to upright RGB; transparency is dropped, not blended. Throws UserError.
Image decode_png(std::span<const std::byte> bytes, const std::string& name,
                 const ImageLimits& limits = {});

/// Whether the first bytes are those of a WebP.
bool is_webp(std::span<const std::byte> bytes);

/// Decodes a WebP of one picture to upright RGB; transparency is dropped, not blended. Throws
/// UserError, also for an animation.
Image decode_webp(std::span<const std::byte> bytes, const std::string& name,
                  const ImageLimits& limits = {});

/// The orientation (1-8) in EXIF data: a TIFF header and its first directory, with or without
/// "Exif\0\0" before it. 1 (upright) where there is none or the data is malformed.
int exif_orientation(std::span<const std::byte> exif);

/// Undoes an EXIF orientation: the image as it is to be seen.
Image turn_upright(Image image, int orientation);

}  // namespace nsvq
