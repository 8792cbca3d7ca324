#include "nsvq/data/transform.h"

#include <algorithm>
#include <array>

#include "nsvq/core/error.h"
#include "nsvq/core/random.h"
#include "nsvq/data/resize.h"

namespace nsvq {

namespace {

/// Half of `n`, ties to even: Python's round(n / 2), which torchvision's CenterCrop uses.
int64_t half_to_even(int64_t n) { return n / 2 + (n % 2 != 0 && n / 2 % 2 != 0); }

/// x / 127.5 - 1 for every byte.
const std::array<float, 256>& levels() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> values;
    for (int i = 0; i < 256; ++i) values[i] = static_cast<float>(i / 127.5 - 1.0);
    return values;
  }();
  return table;
}

/// From RGBX pixels to a row of each plane.
void write_row(const uint8_t* row, int size, bool flip, float* red) {
  const float* level = levels().data();
  const size_t plane = static_cast<size_t>(size) * size;
  const int step = flip ? -1 : 1;
  float* out = flip ? red + size - 1 : red;
  for (int x = 0; x < size; ++x, row += 4, out += step) {
    out[0] = level[row[0]];
    out[plane] = level[row[1]];
    out[2 * plane] = level[row[2]];
  }
}

}  // namespace

Image resize_bilinear(const Image& image, int width, int height) {
  check_image(image, "resize_bilinear");
  if (width <= 0 || height <= 0)
    throw UserError("resize_bilinear: cannot resize to {} x {} pixels", width, height);
  Image out{width, height, {}};
  const size_t row_bytes = size_t{3} * width;
  out.pixels.resize(row_bytes * height);
  WindowResizer rows(image, width, height, {0, 0, width, height});
  for (int y = 0; y < height; ++y) {
    const uint8_t* from = rows.next_row();
    uint8_t* to = out.pixels.data() + y * row_bytes;
    for (int x = 0; x < width; ++x, from += 4, to += 3) {
      to[0] = from[0];
      to[1] = from[1];
      to[2] = from[2];
    }
  }
  return out;
}

void transform(const Image& image, const TransformOptions& options, uint64_t seed,
               std::span<float> out) {
  const int size = options.size;
  check_image(image, "transform");
  if (size <= 0) throw UserError("transform: size is {}, but must be at least 1", size);
  if (out.size() != size_t{3} * size * size)
    throw RunError("transform: room for {} floats, but 3 x {} x {} come out", out.size(), size,
                   size);

  // The long side is truncated, as in torchvision's Resize.
  const int64_t shorter = std::min(image.width, image.height);
  const auto resized = [&](int64_t side) {
    return static_cast<int64_t>(static_cast<double>(size * side) / static_cast<double>(shorter));
  };
  const int64_t width = resized(image.width), height = resized(image.height);

  Random random(seed);
  Window window{random.below(width - size + 1), random.below(height - size + 1), size, size};
  const bool flip = random.uniform() < 0.5 && options.flip;
  if (options.crop == Crop::center) {
    window.left = half_to_even(width - size);
    window.top = half_to_even(height - size);
  }
  WindowResizer rows(image, width, height, window);
  for (int y = 0; y < size; ++y)
    write_row(rows.next_row(), size, flip, out.data() + static_cast<size_t>(y) * size);
}

}  // namespace nsvq
