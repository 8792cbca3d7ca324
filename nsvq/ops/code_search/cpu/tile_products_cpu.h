#pragma once

#include <cstdint>

namespace nsvq {

// Products in tiles. Codes lie in panels of 16, [inner, 16], and what they are multiplied with in
// strips of 10 rows, [inner, 10]: a few rows times a panel stay in registers, and both are read in
// order.
constexpr int64_t kPanel = 16, kStrip = 10;

/// Floats that must be readable behind the last strip.
constexpr int64_t kBehindStrips = 8;

struct WeightSums {
  float weights;  ///< sum of e
  float scored;   ///< sum of e log2 e
};

/// The loops that take the time, compiled for several instruction sets. `count` is a number of
/// panels.
struct TileKernels {
  /// scores [count, 10, 16] = norms [count, 16] + strip^T panels, and the least score of each of
  /// the `rows` rows. The error of a product is that of some order of summation.
  void (*scores)(const float* strip, int64_t rows, int64_t inner, const float* panels,
                 const float* norms, int64_t count, float* scores, float* least);

  /// The first panel from `from` on with a score of at most `limit`, or count. `scores` are those
  /// of one row, 10 * 16 apart from panel to panel.
  int64_t (*next_within)(const float* scores, int64_t from, int64_t count, float limit);

  /// e = 2^((reference - score) * rate) of one row's scores, none of which is below the reference.
  /// Weights are stored `stride` apart from panel to panel; they may overwrite the scores.
  WeightSums (*weigh)(const float* scores, int64_t count, float reference, float rate,
                      float* weights, int64_t stride);

  /// sums [count, rows, 16] += strips^T panels, of as many strips as `rows` rows need. Panels are
  /// `stride` apart.
  void (*add_products)(const float* strips, int64_t rows, int64_t inner, const float* panels,
                       int64_t stride, int64_t count, float* sums);
};

/// The kernels for the processor at hand (instruction_set_cpu.h).
const TileKernels& tile_kernels();

}  // namespace nsvq
