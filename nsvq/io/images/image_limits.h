#pragma once

#include <cstdint>
#include <string_view>

namespace nsvq {

/// What an image file may ask for. Checked before memory is taken, so that a few bytes that claim a
/// huge picture cost nothing.
struct ImageLimits {
  uint64_t pixels = uint64_t{1} << 27;      ///< width x height
  uint64_t side = 65'500;                   ///< width or height; libjpeg's own limit
  uint64_t file_bytes = uint64_t{1} << 30;  ///< of the encoded image: 2^27 pixels of 64 bits
};

/// Throws UserError, beginning with `name`, for a picture beyond the limits; `kind` is JPEG, PNG,
/// ...
void check_picture_size(uint64_t width, uint64_t height, const ImageLimits& limits,
                        std::string_view kind, std::string_view name);

/// Throws UserError, beginning with `name`, for an encoded image of too many bytes.
void check_image_bytes(uint64_t bytes, const ImageLimits& limits, std::string_view name);

}  // namespace nsvq
