// GroupNorm + SiLU and its gradient on a CPU, channels-last.
//
// An image [pixels, channels] is worked through in blocks of whole pixels that fit into the nearest
// cache, as fp32. The statistics of a block are found in two passes over it, so that a mean far
// from zero costs no digits, and blocks are put together in fp64 and in their order, so that the
// number of threads does not matter.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <vector>

#include "nsvq/core/threads/parallel.h"
#include "nsvq/ops/group_norm/group_norm_loops_cpu.h"

// A namespace of its own, not an anonymous one, since several files share these types.
namespace nsvq::group_norm_cpu {

/// Numbers in a block, about: 32 KiB.
constexpr int64_t kBlock = 8192;

struct Shape {
  int64_t images, channels, groups, pixels, block;

  explicit Shape(const at::Tensor& input, int64_t group_count)
      : images(input.size(0)),
        channels(input.size(1)),
        groups(group_count),
        pixels(input.size(2) * input.size(3)),
        block(std::max<int64_t>(4, kBlock / std::max<int64_t>(1, channels))) {}

  int64_t blocks() const { return (pixels + block - 1) / block; }
  int64_t rows(int64_t index) const { return std::min(block, pixels - index * block); }
  int64_t offset(int64_t image, int64_t index) const {
    return (image * pixels + index * block) * channels;
  }
  int64_t group_size() const { return channels / groups; }
};

/// Numbers for each channel of an image, or of a block.
class Table {
 public:
  Table(int64_t rows, int64_t columns) : columns_(columns), values_(rows * columns) {}
  float* operator[](int64_t row) { return values_.data() + row * columns_; }

 private:
  int64_t columns_;
  std::vector<float> values_;
};

/// What the images of a batch are normalised with.
class Affines {
 public:
  Affines(const Shape& shape, const float* weight, const float* bias)
      : shape_(shape),
        weight_(weight),
        bias_(bias),
        means_(shape.images, shape.channels),
        scales_(shape.images, shape.channels) {}

  /// Sets those of an image from its groups' statistics, which lie in mean and rstd [images,
  /// groups].
  void set(int64_t image, const float* mean, const float* rstd) {
    for (int64_t c = 0; c < shape_.channels; ++c) {
      const int64_t group = image * shape_.groups + c / shape_.group_size();
      means_[image][c] = mean[group];
      scales_[image][c] = rstd[group] * weight_[c];
    }
  }

  Affine operator[](int64_t image) { return {means_[image], scales_[image], bias_}; }

 private:
  const Shape& shape_;
  const float *weight_, *bias_;
  Table means_, scales_;
};

/// Calls pass.first(image, block) for all blocks, then between(image), then second(image, block):
/// image by image, which finds the input in the cache the second time, where there are images
/// enough for all threads.
template <typename Pass>
void in_two_passes(const Shape& shape, Pass& pass) {
  const int64_t blocks = shape.blocks();
  if (shape.images >= 2 * at::get_num_threads() || blocks == 1) {
    parallel_tasks(shape.images, [&](int64_t image) {
      for (int64_t block = 0; block < blocks; ++block) pass.first(image, block);
      pass.between(image);
      for (int64_t block = 0; block < blocks; ++block) pass.second(image, block);
    });
    return;
  }
  parallel_tasks(shape.images * blocks, [&](int64_t i) { pass.first(i / blocks, i % blocks); });
  for (int64_t image = 0; image < shape.images; ++image) pass.between(image);
  parallel_tasks(shape.images * blocks, [&](int64_t i) { pass.second(i / blocks, i % blocks); });
}

}  // namespace nsvq::group_norm_cpu
