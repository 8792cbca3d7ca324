// Channels-last images: a pixel of the wide image and a quarter of a pixel of the deep one are the
// same run of memory.
#pragma once

#include <c10/util/Exception.h>

#include <cstdint>

// A namespace of its own, not an anonymous one, since several files share these types.
namespace nsvq::depth_to_space_cuda {

constexpr int kThreads = 256;

struct Image {
  int64_t images, channels, height, width;  // sizes of the wide image
};

/// A block's row of the wide image, in pieces, of which `run` make a pixel.
struct Row {
  int run, pieces, odd;  ///< odd: the row's number modulo 2
  int64_t wide_start, deep_start;

  __device__ Row(const Image& wide, int run)
      : run(run),
        pieces(static_cast<int>(wide.width) * run),
        wide_start(blockIdx.x * int64_t{pieces}) {
    const int64_t image = blockIdx.x / wide.height, y = blockIdx.x % wide.height;
    odd = static_cast<int>(y % 2);
    // Two rows of the wide image are one of the deep image, which has pixels of 4 runs.
    deep_start = (image * (wide.height / 2) + y / 2) * 2 * pieces + odd * 2 * run;
  }

  /// Index in the deep image of a piece of the row.
  __device__ int64_t deep(int at) const {
    const int x = at / run, piece = at - x * run;
    return deep_start + (x / 2 * 4 + x % 2) * run + piece;
  }
};

inline void check_sizes(const Image& wide, int64_t run) {
  TORCH_CHECK(wide.images * wide.height < (int64_t{1} << 31), "depth_to_space: ", wide.images,
              " images of ", wide.height, " rows are too many");
  TORCH_CHECK(wide.width * run < (1 << 29), "depth_to_space: a row of ", wide.width,
              " pixels with ", wide.channels, " channels is too long");
}

}  // namespace nsvq::depth_to_space_cuda
