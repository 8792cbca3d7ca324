#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nsvq {

/// 8-bit RGB, rows from top to bottom, `pixels[(y * width + x) * 3 + channel]`.
struct Image {
  int width = 0;
  int height = 0;
  std::vector<uint8_t> pixels;
};

/// Limits on image files, checked before memory is allocated: a few bytes may claim a huge picture.
struct ImageLimits {
  uint64_t pixels = uint64_t{1} << 27;      ///< width x height
  uint64_t side = 65'500;                   ///< width or height; libjpeg's own limit
  uint64_t file_bytes = uint64_t{1} << 30;  ///< encoded; 2^27 pixels of 64 bits
};

/// Throws UserError, beginning with `name`, for a picture beyond the limits; `kind` is "JPEG" or
/// another format.
void check_picture_size(uint64_t width, uint64_t height, const ImageLimits& limits,
                        std::string_view kind, std::string_view name);

/// Throws UserError, beginning with `name`, for an encoded image of too many bytes.
void check_image_bytes(uint64_t bytes, const ImageLimits& limits, std::string_view name);

/// Throws UserError, beginning with `name`, for an image without pixels or with a number of pixels
/// that does not match its sides.
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
/// Decodes a regular file; a pipe or a device named like an image is an error. Throws UserError.
Image read_image(const std::filesystem::path& path, const ImageLimits& limits = {});

/// Advice about images of a format that is not read, such as HEIC; `which` is "it" or "them".
std::string convert_advice(std::string_view format, std::string_view which);

}  // namespace nsvq
