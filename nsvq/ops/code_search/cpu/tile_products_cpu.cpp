#include "nsvq/ops/code_search/cpu/tile_products_cpu.h"

#include <algorithm>
#include <limits>

#include "nsvq/ops/common/instruction_set_cpu.h"
#include "nsvq/ops/common/vectors_cpu.h"

namespace nsvq {

namespace {

/// kRows rows of a strip times kPanels panels are held in registers.
template <typename VectorType, int64_t rows, int64_t panels>
struct Shape {
  using Vector = VectorType;
  using OnePanel = Shape<VectorType, rows, 1>;
  static constexpr int64_t kRows = rows, kPanels = panels;
  static constexpr int64_t kVectors = kPanel / kLanes<Vector>;  ///< vectors in a panel
  using Tile = Vector[kRows][kPanels][kVectors];
};

/// A strip's number for each row, by which vectors are multiplied.
template <int64_t kRows>
struct RowValues {
#if defined(__aarch64__)
  // Multiplications can use a lane of a register as factor, which saves loads.
  Vector4 values[(kRows + 3) / 4];
  NSVQ_INLINE explicit RowValues(const float* strip) {
#pragma GCC unroll 4
    for (int64_t v = 0; v < (kRows + 3) / 4; ++v) load(strip + 4 * v, values[v]);
  }
  NSVQ_INLINE float operator[](int64_t row) const { return values[row / 4][row % 4]; }
#else
  const float* values;
  NSVQ_INLINE explicit RowValues(const float* strip) : values(strip) {}
  NSVQ_INLINE float operator[](int64_t row) const { return values[row]; }
#endif
};

// Loops over a tile are all unrolled: an index that is not a constant would keep it in memory.
template <typename Shape>
NSVQ_INLINE void multiply(const float* strip, int64_t inner, const float* panels, int64_t stride,
                          typename Shape::Tile& sums) {
  using Vector = typename Shape::Vector;
#pragma GCC unroll 16
  for (int64_t r = 0; r < Shape::kRows; ++r) {
#pragma GCC unroll 2
    for (int64_t p = 0; p < Shape::kPanels; ++p) {
#pragma GCC unroll 4
      for (int64_t v = 0; v < Shape::kVectors; ++v) sums[r][p][v] = Vector{};
    }
  }
  for (int64_t k = 0; k < inner; ++k) {
    const RowValues<Shape::kRows> values(strip + k * kStrip);
#pragma GCC unroll 2
    for (int64_t p = 0; p < Shape::kPanels; ++p) {
      Vector codes[Shape::kVectors];
#pragma GCC unroll 4
      for (int64_t v = 0; v < Shape::kVectors; ++v) {
        load(panels + p * stride + k * kPanel + v * kLanes<Vector>, codes[v]);
      }
#pragma GCC unroll 16
      for (int64_t r = 0; r < Shape::kRows; ++r) {
#pragma GCC unroll 4
        for (int64_t v = 0; v < Shape::kVectors; ++v) sums[r][p][v] += values[r] * codes[v];
      }
    }
  }
}

template <typename Shape>
NSVQ_INLINE void tile_scores(const float* strip, int64_t inner, const float* panels,
                             const float* norms, float* scores, typename Shape::Vector* least) {
  using Vector = typename Shape::Vector;
  typename Shape::Tile sums;
  multiply<Shape>(strip, inner, panels, inner * kPanel, sums);
#pragma GCC unroll 2
  for (int64_t p = 0; p < Shape::kPanels; ++p) {
    Vector norm[Shape::kVectors];
#pragma GCC unroll 4
    for (int64_t v = 0; v < Shape::kVectors; ++v) {
      load(norms + p * kPanel + v * kLanes<Vector>, norm[v]);
    }
#pragma GCC unroll 16
    for (int64_t r = 0; r < Shape::kRows; ++r) {
      Vector lower = least[r];
#pragma GCC unroll 4
      for (int64_t v = 0; v < Shape::kVectors; ++v) {
        const Vector score = norm[v] + sums[r][p][v];
        lesser(lower, score);
        store(score, scores + (p * kStrip + r) * kPanel + v * kLanes<Vector>);
      }
      least[r] = lower;
    }
  }
}

template <typename Shape>
NSVQ_INLINE void strip_scores(const float* strip, int64_t rows, int64_t inner, const float* panels,
                              const float* norms, int64_t count, float* scores, float* least) {
  using Vector = typename Shape::Vector;
  Vector lower[kStrip];
  for (auto& one : lower) one = Vector{} + std::numeric_limits<float>::infinity();
  for (int64_t p = 0; p < count; p += Shape::kPanels) {
    const float* panel = panels + p * inner * kPanel;
    for (int64_t row = 0; row < rows; row += Shape::kRows) {
      float* to = scores + (p * kStrip + row) * kPanel;
      if (p + Shape::kPanels <= count) {
        tile_scores<Shape>(strip + row, inner, panel, norms + p * kPanel, to, lower + row);
      } else {
        tile_scores<typename Shape::OnePanel>(strip + row, inner, panel, norms + p * kPanel, to,
                                              lower + row);
      }
    }
  }
  for (int64_t row = 0; row < rows; ++row) {
    least[row] = lower[row][0];
    for (int64_t lane = 1; lane < kLanes<Vector>; ++lane) {
      least[row] = std::min(least[row], lower[row][lane]);
    }
  }
}

template <typename Shape>
NSVQ_INLINE int64_t row_next_within(const float* scores, int64_t from, int64_t count, float limit) {
  for (int64_t p = from; p < count; ++p) {
    typename Shape::Vector lower, score;
    load(scores + p * kStrip * kPanel, lower);
#pragma GCC unroll 4
    for (int64_t v = 1; v < Shape::kVectors; ++v) {
      load(scores + p * kStrip * kPanel + v * kLanes<typename Shape::Vector>, score);
      lesser(lower, score);
    }
    if (any_of(lower <= limit)) return p;
  }
  return count;
}

template <typename Shape>
NSVQ_INLINE WeightSums row_weigh(const float* scores, int64_t count, float reference, float rate,
                                 float* weights, int64_t stride) {
  using Vector = typename Shape::Vector;
  Vector sum[Shape::kVectors] = {}, scored[Shape::kVectors] = {};
  for (int64_t p = 0; p < count; ++p) {
    Vector x[Shape::kVectors], weight[Shape::kVectors];
#pragma GCC unroll 4
    for (int64_t v = 0; v < Shape::kVectors; ++v) {
      load(scores + p * kStrip * kPanel + v * kLanes<Vector>, x[v]);
      x[v] = (reference - x[v]) * rate;
    }
    exp2_of(x, weight);
#pragma GCC unroll 4
    for (int64_t v = 0; v < Shape::kVectors; ++v) {
      sum[v] += weight[v];
      scored[v] += weight[v] * x[v];
      store(weight[v], weights + p * stride + v * kLanes<Vector>);
    }
  }
  WeightSums sums{0, 0};
#pragma GCC unroll 4
  for (int64_t v = 0; v < Shape::kVectors; ++v) {
    for (int64_t lane = 0; lane < kLanes<Vector>; ++lane) {
      sums.weights += sum[v][lane];
      sums.scored += scored[v][lane];
    }
  }
  return sums;
}

template <typename Shape>
NSVQ_INLINE void tile_add(const float* strip, int64_t rows, int64_t inner, const float* panels,
                          int64_t stride, float* sums, int64_t sums_stride) {
  using Vector = typename Shape::Vector;
  typename Shape::Tile products;
  multiply<Shape>(strip, inner, panels, stride, products);
#pragma GCC unroll 16
  for (int64_t r = 0; r < Shape::kRows; ++r) {
    if (r >= rows) break;
#pragma GCC unroll 2
    for (int64_t p = 0; p < Shape::kPanels; ++p) {
#pragma GCC unroll 4
      for (int64_t v = 0; v < Shape::kVectors; ++v) {
        float* to = sums + p * sums_stride + r * kPanel + v * kLanes<Vector>;
        Vector sum;
        load(to, sum);
        store(sum + products[r][p][v], to);
      }
    }
  }
}

template <typename Shape>
NSVQ_INLINE void strips_add(const float* strips, int64_t rows, int64_t inner, const float* panels,
                            int64_t stride, int64_t count, float* sums) {
  for (int64_t p = 0; p < count; p += Shape::kPanels) {
    for (int64_t row = 0; row < rows; row += Shape::kRows) {
      const float* strip = strips + row / kStrip * kStrip * inner + row % kStrip;
      float* to = sums + (p * rows + row) * kPanel;
      const int64_t here = std::min(Shape::kRows, rows - row);
      if (p + Shape::kPanels <= count) {
        tile_add<Shape>(strip, here, inner, panels + p * stride, stride, to, rows * kPanel);
      } else {
        tile_add<typename Shape::OnePanel>(strip, here, inner, panels + p * stride, stride, to,
                                           rows * kPanel);
      }
    }
  }
}

/// The four kernels with a tile's shape, compiled for the instruction set that `target` names.
#define NSVQ_KERNELS(name, shape, target)                                                         \
  target void name##_scores(const float* a, int64_t b, int64_t c, const float* d, const float* e, \
                            int64_t f, float* g, float* h) {                                      \
    strip_scores<shape>(a, b, c, d, e, f, g, h);                                                  \
  }                                                                                               \
  target int64_t name##_next_within(const float* a, int64_t b, int64_t c, float d) {              \
    return row_next_within<shape>(a, b, c, d);                                                    \
  }                                                                                               \
  target WeightSums name##_weigh(const float* a, int64_t b, float c, float d, float* e,           \
                                 int64_t f) {                                                     \
    return row_weigh<shape>(a, b, c, d, e, f);                                                    \
  }                                                                                               \
  target void name##_add(const float* a, int64_t b, int64_t c, const float* d, int64_t e,         \
                         int64_t f, float* g) {                                                   \
    strips_add<shape>(a, b, c, d, e, f, g);                                                       \
  }                                                                                               \
  constexpr TileKernels name{name##_scores, name##_next_within, name##_weigh, name##_add};

using Basic = Shape<Vector4, 5, 1>;
NSVQ_KERNELS(basic, Basic, )
#if defined(__x86_64__)
using Avx2 = Shape<Vector8, 5, 1>;
NSVQ_KERNELS(avx2, Avx2, NSVQ_AVX2)
using Avx512 = Shape<Vector16, 10, 2>;
NSVQ_KERNELS(avx512, Avx512, NSVQ_AVX512)
#endif

}  // namespace

const TileKernels& tile_kernels() {
#if defined(__x86_64__)
  static const TileKernels& best = best_of(basic, avx2, avx512);
  return best;
#else
  return basic;
#endif
}

}  // namespace nsvq
