#pragma once

#include <cstdint>
#include <vector>

#include "nsvq/data/images/rgb_lanes.h"
#include "nsvq/io/images/image.h"

namespace nsvq {

/// Source positions and filter weights of `count` consecutive output positions along one side.
/// Every output has equally many weights, some of them 0: with a varying loop length, branch
/// mispredictions would cost more than the extra sums.
struct Taps {
  /// Outputs start .. start + count - 1 of a side resized from `source` to `target`.
  Taps(int source, int64_t target, int64_t start, int count);

  int pairs = 1;                           ///< pairs of weights per output
  std::vector<int> first;                  ///< [count] first source position, ascending
  std::vector<lanes::WeightPair> weights;  ///< [count, pairs]
};

/// A rectangle of the resized image.
struct Window {
  int64_t left, top;
  int width, height;
};

/// Produces the rows of a window of `image` resized to full_width x full_height, from top to
/// bottom. Computes only the pixels of the window and keeps only as many horizontally resized rows
/// as the vertical filter spans.
class WindowResizer {
 public:
  /// `image` must outlive the resizer.
  WindowResizer(const Image& image, int64_t full_width, int64_t full_height, Window window);

  /// The next row, window.width pixels of four bytes (the last unused); valid until the next call.
  const uint8_t* next_row();

 private:
  uint8_t* kept_row(int y);
  void resize_across(int y);

  const Image& image_;
  int width_;
  Taps across_, down_;
  size_t row_bytes_;           ///< bytes of a row of RGBX pixels, rounded up to four pixels
  std::vector<uint8_t> kept_;  ///< horizontally resized rows; row y is at y % (2 * down_.pairs)
  std::vector<const uint8_t*> rows_;  ///< the rows in kept_ that the current output row sums
  std::vector<uint8_t> last_row_, out_;
  int next_output_ = 0;
  int next_source_ = 0;
};

}  // namespace nsvq
