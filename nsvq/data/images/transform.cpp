#include "nsvq/data/images/transform.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "nsvq/core/error.h"
#include "nsvq/core/random.h"
#include "nsvq/data/images/resize.h"

namespace nsvq {

namespace {

/// Half of `n`, ties to even: Python's round(n / 2), which torchvision's CenterCrop uses.
int64_t half_to_even(int64_t n) { return n / 2 + (n % 2 != 0 && n / 2 % 2 != 0); }

/// Writes a row of RGBX pixels to the red, green and blue planes, which lie `plane` elements apart.
template <typename Number, typename Level>
void write_row(const uint8_t* row, int width, size_t plane, bool flip, const Level& level,
               Number* red) {
  const int step = flip ? -1 : 1;
  Number* out = flip ? red + width - 1 : red;
  for (int x = 0; x < width; ++x, row += 4, out += step) {
    out[0] = level(row[0]);
    out[plane] = level(row[1]);
    out[2 * plane] = level(row[2]);
  }
}

/// `level` converts a byte to an output value.
template <typename Number, typename Level>
void transform_to(std::span<Number> out, const Level& level, const Image& image,
                  const TransformOptions& options, uint64_t seed) {
  const int out_height = options.output_height(), out_width = options.output_width();
  check_image(image, "transform");
  if (out_height <= 0 || out_width <= 0)
    throw UserError("transform: size is {} x {}, but must be at least 1", out_height, out_width);
  const size_t plane = static_cast<size_t>(out_height) * out_width;
  if (out.size() != 3 * plane)
    throw RunError("transform: `out` has {} elements, but the output is 3 x {} x {}", out.size(),
                   out_height, out_width);

  // One side fits exactly; the other is truncated, as in torchvision's Resize.
  const bool width_fits = int64_t{out_width} * image.height >= int64_t{out_height} * image.width;
  const int64_t fitting = width_fits ? image.width : image.height;
  const int64_t target = width_fits ? out_width : out_height;
  const auto resized = [&](int64_t side) {
    return static_cast<int64_t>(static_cast<double>(target * side) / static_cast<double>(fitting));
  };
  const int64_t width = resized(image.width), height = resized(image.height);

  Random random(seed);
  const int64_t left = random.below(width - out_width + 1);
  const int64_t top = random.below(height - out_height + 1);
  const bool flip = random.uniform() < 0.5 && options.flip;
  Window window{left, top, out_width, out_height};
  if (options.crop == Crop::center) {
    window.left = half_to_even(width - out_width);
    window.top = half_to_even(height - out_height);
  }
  WindowResizer rows(image, width, height, window);
  for (int y = 0; y < out_height; ++y)
    write_row(rows.next_row(), out_width, plane, flip, level,
              out.data() + static_cast<size_t>(y) * out_width);
}

int rounded_down(int side, int stride) { return side / stride * stride; }

int rounded_up(int side, int stride) { return (side + stride - 1) / stride * stride; }

int nearest_multiple(int side, int stride) {
  return std::max(stride, rounded_down(side + stride / 2, stride));
}

/// Index into 0 .. side - 1 of position `at` under reflection padding (the ends are not repeated).
int mirrored(int at, int side) {
  if (side == 1) return 0;
  const int period = 2 * side - 2;
  return std::min(at % period, period - at % period);
}

Image cropped(const Image& image, int left, int top, int width, int height) {
  Image out{width, height, std::vector<uint8_t>(size_t{3} * width * height)};
  const size_t row = size_t{3} * width;
  for (int y = 0; y < height; ++y) {
    const size_t from = (static_cast<size_t>(top + y) * image.width + left) * 3;
    std::memcpy(&out.pixels[y * row], &image.pixels[from], row);
  }
  return out;
}

Image padded(const Image& image, int width, int height) {
  Image out{width, height, std::vector<uint8_t>(size_t{3} * width * height)};
  uint8_t* to = out.pixels.data();
  for (int y = 0; y < height; ++y) {
    const size_t row = static_cast<size_t>(mirrored(y, image.height)) * image.width;
    for (int x = 0; x < width; ++x, to += 3) {
      std::memcpy(to, &image.pixels[(row + mirrored(x, image.width)) * 3], 3);
    }
  }
  return out;
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

const std::array<float, 256>& pixel_levels() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> values;
    for (int i = 0; i < 256; ++i) values[i] = static_cast<float>(i / 127.5 - 1.0);
    return values;
  }();
  return table;
}

void transform(const Image& image, const TransformOptions& options, uint64_t seed,
               std::span<float> out) {
  const float* table = pixel_levels().data();
  transform_to(
      out, [table](uint8_t byte) { return table[byte]; }, image, options, seed);
}

void transform(const Image& image, const TransformOptions& options, uint64_t seed,
               std::span<uint8_t> out) {
  transform_to(
      out, [](uint8_t byte) { return byte; }, image, options, seed);
}

Image fit_to_stride(const Image& image, Fit fit, int stride) {
  check_image(image, "fit_to_stride");
  if (fit == Fit::pad) {
    return padded(image, rounded_up(image.width, stride), rounded_up(image.height, stride));
  }
  if (fit == Fit::resize) {
    return resize_bilinear(image, nearest_multiple(image.width, stride),
                           nearest_multiple(image.height, stride));
  }
  const int width = rounded_down(image.width, stride), height = rounded_down(image.height, stride);
  if (width == 0 || height == 0) {
    throw UserError("{} x {} pixels are less than the model's stride of {}; pad or resize it",
                    image.width, image.height, stride);
  }
  return cropped(image, (image.width - width) / 2, (image.height - height) / 2, width, height);
}

Image crop_corner(const Image& image, int width, int height) {
  check_image(image, "crop_corner");
  if (width < 1 || height < 1 || width > image.width || height > image.height) {
    throw UserError("cannot cut {} x {} pixels out of {} x {}", width, height, image.width,
                    image.height);
  }
  return cropped(image, 0, 0, width, height);
}

}  // namespace nsvq
