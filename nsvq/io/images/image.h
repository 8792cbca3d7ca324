#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nsvq/io/images/image_limits.h"

namespace nsvq {

/// 8-bit RGB, rows from top to bottom, `pixels[(y * width + x) * 3 + channel]`.
struct Image {
  int width = 0;
  int height = 0;
  std::vector<uint8_t> pixels;
};

/// Throws UserError, beginning with `name`, where the image has no pixels or not as many as its
/// sides say.
void check_image(const Image& image, std::string_view name);

/// Decodes a JPEG, PNG or WebP (told apart by their first bytes) to RGB, turned upright by its EXIF
/// orientation. Grey, palette, CMYK/YCCK, 16-bit and transparent images become 8-bit RGB as
/// Pillow's convert("RGB") makes them (but 16-bit grey is scaled, not clipped). `name` is what an
/// error calls the image. Throws UserError.
Image decode_image(std::span<const std::byte> bytes, const std::string& name,
                   const ImageLimits& limits = {});

std::vector<std::byte> encode_png(const Image& image);
/// By the name's ending: .png, .jpg or .jpeg (quality 95); appears by atomic rename.
void write_image(const std::filesystem::path& path, const Image& image);
/// Of a regular file; a pipe or a device named like an image is an error. Throws UserError.
Image read_image(const std::filesystem::path& path, const ImageLimits& limits = {});

}  // namespace nsvq
