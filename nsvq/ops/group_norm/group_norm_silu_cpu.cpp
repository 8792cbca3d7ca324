#include <torch/library.h>
#include <torch/types.h>

#include <cmath>
#include <tuple>

#include "nsvq/ops/group_norm/group_norm_blocks_cpu.h"
#include "nsvq/ops/group_norm/group_norm_floats_cpu.h"
#include "nsvq/ops/group_norm/group_norm_silu.h"

namespace nsvq::group_norm_cpu {

namespace {

/// Mean and sum of squared deviations of `count` numbers.
struct Moments {
  double count = 0, mean = 0, squares = 0;

  void add(const Moments& other) {
    const double total = count + other.count, apart = other.mean - mean;
    mean += apart * other.count / total;
    squares += other.squares + apart * apart * count * other.count / total;
    count = total;
  }
};

/// Moments of a group from those of its channels, of `rows` numbers each; unlike `add` without a
/// division for each.
Moments joined(const float* means, const float* squares, int64_t channels, int64_t rows) {
  Moments all{static_cast<double>(channels * rows)};
  for (int64_t c = 0; c < channels; ++c) all.mean += means[c];
  all.mean /= static_cast<double>(channels);
  for (int64_t c = 0; c < channels; ++c) {
    const double apart = means[c] - all.mean;
    all.squares += squares[c] + apart * apart * static_cast<double>(rows);
  }
  return all;
}

template <typename T>
struct ForwardPass {
  const Shape& shape;
  const T* input;
  double eps;
  bool silu;
  T* output;
  float *mean, *rstd;
  Affines affines;
  std::vector<Moments> moments;  ///< [images, blocks, groups]

  Moments* of_groups(int64_t image, int64_t block) {
    return &moments[(image * shape.blocks() + block) * shape.groups];
  }

  void first(int64_t image, int64_t block) {
    static thread_local std::vector<float> room, means, squares;
    const int64_t rows = shape.rows(block), channels = shape.channels;
    means.resize(channels);
    squares.resize(channels);
    loops(channels).moments({rows, channels},
                            as_floats(input + shape.offset(image, block), rows * channels, room),
                            means.data(), squares.data());
    const int64_t size = shape.group_size();
    for (int64_t group = 0; group < shape.groups; ++group) {
      of_groups(image, block)[group] =
          joined(means.data() + group * size, squares.data() + group * size, size, rows);
    }
  }

  void between(int64_t image) {
    for (int64_t group = 0; group < shape.groups; ++group) {
      Moments all;
      for (int64_t block = 0; block < shape.blocks(); ++block) {
        all.add(of_groups(image, block)[group]);
      }
      const int64_t i = image * shape.groups + group;
      mean[i] = static_cast<float>(all.mean);
      rstd[i] = static_cast<float>(1 / std::sqrt(all.squares / all.count + eps));
    }
    affines.set(image, mean, rstd);
  }

  void second(int64_t image, int64_t block) {
    static thread_local std::vector<float> room, made;
    const int64_t rows = shape.rows(block), count = rows * shape.channels;
    T* to = output + shape.offset(image, block);
    loops(shape.channels)
        .normalise({rows, shape.channels},
                   as_floats(input + shape.offset(image, block), count, room), affines[image], silu,
                   room_for(to, count, made));
    put(made, count, to);
  }
};

std::tuple<at::Tensor, at::Tensor, at::Tensor> group_norm_silu_cpu(const at::Tensor& input,
                                                                   const at::Tensor& weight,
                                                                   const at::Tensor& bias,
                                                                   int64_t groups, double eps,
                                                                   bool silu) {
  check_group_norm_silu(input, weight, bias, groups);
  const auto x = input.contiguous(at::MemoryFormat::ChannelsLast);
  const auto w = weight.to(at::kFloat).contiguous(), b = bias.to(at::kFloat).contiguous();
  auto output = at::empty_like(x, at::MemoryFormat::ChannelsLast);
  auto mean = at::zeros({x.size(0), groups}, at::kFloat), rstd = at::zeros_like(mean);
  if (x.numel() == 0) return {output, mean, rstd};
  const Shape shape(x, groups);
  for_type(x.scalar_type(), [&](auto type) {
    using T = decltype(type);
    ForwardPass<T> pass{shape,
                        x.const_data_ptr<T>(),
                        eps,
                        silu,
                        output.mutable_data_ptr<T>(),
                        mean.mutable_data_ptr<float>(),
                        rstd.mutable_data_ptr<float>(),
                        {shape, w.const_data_ptr<float>(), b.const_data_ptr<float>()},
                        std::vector<Moments>(shape.images * shape.blocks() * shape.groups)};
    in_two_passes(shape, pass);
  });
  return {output, mean, rstd};
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CPU, m) { m.impl("group_norm_silu", group_norm_silu_cpu); }

}  // namespace nsvq::group_norm_cpu
