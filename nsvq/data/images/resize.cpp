#include "nsvq/data/images/resize.h"

#include <algorithm>
#include <cmath>

namespace nsvq {

namespace {

/// Filter weights of `number` source pixels from `first` on, for an output pixel whose centre lies
/// at `center` in source pixels. Doubles in this order of operations, as in Pillow's BILINEAR
/// filter: a triangle two output pixels wide (two source pixels when enlarging), cut off at the
/// border.
void triangle(double center, double support, int first, int number, int32_t* weights,
              std::vector<double>& exact) {
  double total = 0;
  for (int k = 0; k < number; ++k) {
    const double distance = std::fabs((k + first - center + 0.5) * (1.0 / support));
    exact[k] = distance < 1.0 ? 1.0 - distance : 0.0;
    total += exact[k];
  }
  for (int k = 0; k < number; ++k) {
    const double weight = total != 0.0 ? exact[k] / total : exact[k];
    weights[k] = static_cast<int32_t>(0.5 + weight * (1 << lanes::kWeightBits));
  }
}

}  // namespace

Taps::Taps(int source, int64_t target, int64_t start, int count) : first(count) {
  if (source == target) {  // Pillow skips such a pass
    weights.assign(count, lanes::pair_weights(1 << lanes::kWeightBits, 0));
    for (int i = 0; i < count; ++i) first[i] = static_cast<int>(start) + i;
    return;
  }
  const double scale = static_cast<double>(source) / static_cast<double>(target);
  const double support = std::max(scale, 1.0);
  pairs = (std::min(static_cast<int>(2 * support) + 1, source) + 1) / 2;
  weights.reserve(static_cast<size_t>(count) * pairs);
  std::vector<int32_t> single(size_t{2} * pairs);
  std::vector<double> exact(single.size());
  for (int i = 0; i < count; ++i) {
    const double center = (static_cast<double>(start + i) + 0.5) * scale;
    const int from = std::max(static_cast<int>(center - support + 0.5), 0);
    const int to = std::min(static_cast<int>(center + support + 0.5), source);
    first[i] = std::max(std::min(from, source - 2 * pairs), 0);
    std::fill(single.begin(), single.end(), 0);
    triangle(center, support, from, to - from, single.data() + (from - first[i]), exact);
    for (int k = 0; k < 2 * pairs; k += 2)
      weights.push_back(lanes::pair_weights(single[k], single[k + 1]));
  }
}

WindowResizer::WindowResizer(const Image& image, int64_t full_width, int64_t full_height,
                             Window window)
    : image_(image),
      width_(window.width),
      across_(image.width, full_width, window.left, window.width),
      down_(image.height, full_height, window.top, window.height),
      row_bytes_((static_cast<size_t>(window.width) + 3) / 4 * 16),
      kept_(2 * down_.pairs * row_bytes_),
      rows_(size_t{2} * down_.pairs),
      out_(row_bytes_) {}

uint8_t* WindowResizer::kept_row(int y) {
  return kept_.data() + static_cast<size_t>(y % (2 * down_.pairs)) * row_bytes_;
}

void WindowResizer::resize_across(int y) {
  const size_t image_row = size_t{3} * image_.width;
  const uint8_t* row = image_.pixels.data() + y * image_row;
  if ((image_.height - 1 - y) * image_row < lanes::kTapBytes) {
    // lanes::add_taps reads a few bytes past the last pixel, which must not lie outside the image.
    last_row_.assign(row, row + image_row);
    last_row_.resize(image_row + lanes::kTapBytes);
    row = last_row_.data();
  }
  const int* first = across_.first.data();
  const lanes::WeightPair* weight = across_.weights.data();
  const int pairs = across_.pairs;
  uint8_t* out = kept_row(y);
  for (const uint8_t* const end = out + size_t{4} * width_; out != end; out += 4) {
    const uint8_t* source = row + size_t{3} * *first++;
    lanes::Sum sum;
    for (int k = 0; k < pairs; ++k, source += 6) lanes::add_taps(sum, source, *weight++);
    lanes::store(out, sum);
  }
}

const uint8_t* WindowResizer::next_row() {
  const int first = down_.first[next_output_];
  const int number = 2 * down_.pairs;
  const auto* weights = down_.weights.data() + static_cast<size_t>(next_output_) * down_.pairs;
  ++next_output_;
  next_source_ = std::max(next_source_, first);
  for (; next_source_ < std::min(first + number, image_.height); ++next_source_)
    resize_across(next_source_);
  for (int k = 0; k < number; ++k) rows_[k] = kept_row(first + k);

  const uint8_t* const* rows = rows_.data();
  uint8_t* out = out_.data();
  for (size_t at = 0, end = row_bytes_; at < end; at += 16) {
    lanes::Sum sums[4];
    for (int k = 0; k < number; k += 2)
      lanes::add_rows(sums, rows[k] + at, rows[k + 1] + at, weights[k / 2]);
    lanes::store(out + at, sums);
  }
  return out;
}

}  // namespace nsvq
