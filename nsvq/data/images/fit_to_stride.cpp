#include "nsvq/data/images/fit_to_stride.h"

#include <algorithm>
#include <cstring>

#include "nsvq/core/error.h"
#include "nsvq/data/images/transform.h"

namespace nsvq {

namespace {

int rounded_down(int side, int stride) { return side / stride * stride; }

int rounded_up(int side, int stride) { return (side + stride - 1) / stride * stride; }

int nearest_multiple(int side, int stride) {
  return std::max(stride, rounded_down(side + stride / 2, stride));
}

/// Index into 0 .. side - 1 of position `at` under reflection padding (the ends are not repeated).
int mirrored(int at, int side) {
  if (side == 1) return 0;
  const int place = at % (2 * side - 2);
  return place < side ? place : 2 * side - 2 - place;
}

Image window(const Image& image, int left, int top, int width, int height) {
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
  return window(image, (image.width - width) / 2, (image.height - height) / 2, width, height);
}

Image crop_corner(const Image& image, int width, int height) {
  check_image(image, "crop_corner");
  if (width < 1 || height < 1 || width > image.width || height > image.height) {
    throw UserError("cannot cut {} x {} pixels out of {} x {}", width, height, image.width,
                    image.height);
  }
  return window(image, 0, 0, width, height);
}

}  // namespace nsvq
