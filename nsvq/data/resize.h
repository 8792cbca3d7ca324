#pragma once

#include <cstdint>
#include <vector>

#include "nsvq/data/rgb_lanes.h"
#include "nsvq/io/image.h"

namespace nsvq {

/// Which source positions, with which weights, make each of `count` consecutive output positions
/// along one side. Every output has the same number of weights, some of them 0: a loop whose length
/// changes costs more, in mispredicted branches, than the sums.
struct Taps {
  /// For the outputs start .. start + count - 1 of a side resized from `source` to `target`.
  Taps(int source, int64_t target, int64_t start, int count);

  int pairs = 1;                           ///< of weights per output
  std::vector<int> first;                  ///< [count] first source position, ascending
  std::vector<lanes::WeightPair> weights;  ///< [count, pairs]
};

/// A rectangle of the resized image.
struct Window {
  int64_t left, top;
  int width, height;
};

/// The rows of a window of `image` resized to full_width x full_height, one after the other. Reads
/// and computes only what the window needs, and keeps only the rows that the next one may need.
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
  size_t row_bytes_;                  ///< of RGBX pixels in groups of four
  std::vector<uint8_t> kept_;         ///< rows resized across, row y at y % (2 * down_.pairs)
  std::vector<const uint8_t*> rows_;  ///< those of the current output row
  std::vector<uint8_t> last_row_, out_;
  int next_output_ = 0;
  int next_source_ = 0;
};

}  // namespace nsvq
