#include "nsvq/io/images/image_limits.h"

#include "nsvq/core/error.h"

namespace nsvq {

void check_picture_size(uint64_t width, uint64_t height, const ImageLimits& limits,
                        std::string_view kind, std::string_view name) {
  if (width == 0 || height == 0)
    throw UserError("{}: {} of zero size; replace or remove the file", name, kind);
  if (width > limits.side || height > limits.side)
    throw UserError("{}: {} of {} x {} pixels, more than the limit of {} a side; make it smaller",
                    name, kind, width, height, limits.side);
  if (width * height > limits.pixels)
    throw UserError("{}: {} of {} x {} pixels, more than the limit of {}; make it smaller", name,
                    kind, width, height, limits.pixels);
}

void check_image_bytes(uint64_t bytes, const ImageLimits& limits, std::string_view name) {
  if (bytes > limits.file_bytes)
    throw UserError("{}: an image of {} bytes, more than the limit of {}; replace or remove it",
                    name, bytes, limits.file_bytes);
}

}  // namespace nsvq
