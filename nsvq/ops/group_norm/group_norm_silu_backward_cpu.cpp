#include <torch/library.h>
#include <torch/types.h>

#include <tuple>

#include "nsvq/ops/group_norm/group_norm_blocks_cpu.h"
#include "nsvq/ops/group_norm/group_norm_floats_cpu.h"
#include "nsvq/ops/group_norm/group_norm_silu.h"

namespace nsvq::group_norm_cpu {

namespace {

/// Sums of du and of du (x - mean), for each channel of a block or image.
struct SumTables {
  Table plain, centred;
  SumTables(int64_t rows, int64_t channels) : plain(rows, channels), centred(rows, channels) {}
};

template <typename T>
struct BackwardPass {
  const Shape& shape;
  const T *gradient, *input;
  const float *rstd, *weight;
  bool silu;
  T* result;
  Affines affines;
  SumTables of_blocks{shape.images * shape.blocks(), shape.channels};
  SumTables of_images{shape.images, shape.channels};
  Table levels{shape.images, shape.channels}, tilts{shape.images, shape.channels};

  /// The gradient for what goes into SiLU, in fp32. A result in fp32 holds it between the passes;
  /// for results in other types it is computed twice, since rounding it would cost precision.
  const float* before_silu(int64_t image, int64_t block, const float* x, bool again) {
    static thread_local std::vector<float> room;
    const int64_t rows = shape.rows(block), count = rows * shape.channels;
    const int64_t offset = shape.offset(image, block);
    const float* dy = as_floats(gradient + offset, count, room);
    if (!silu) return dy;
    float* du = room_for(result + offset, count, room);
    if (!again || !std::is_same_v<T, float>) {
      loops(shape.channels).through_silu({rows, shape.channels}, x, dy, affines[image], du);
    }
    return du;
  }

  void first(int64_t image, int64_t block) {
    static thread_local std::vector<float> room;
    const int64_t rows = shape.rows(block), row = image * shape.blocks() + block;
    const float* x = as_floats(input + shape.offset(image, block), rows * shape.channels, room);
    loops(shape.channels)
        .add_sums({rows, shape.channels}, x, before_silu(image, block, x, false), affines[image],
                  of_blocks.plain[row], of_blocks.centred[row]);
  }

  void between(int64_t image) {
    const int64_t size = shape.group_size();
    for (int64_t group = 0; group < shape.groups; ++group) {
      double level = 0, tilt = 0;
      for (int64_t c = group * size; c < (group + 1) * size; ++c) {
        double plain = 0, centred = 0;
        for (int64_t block = 0; block < shape.blocks(); ++block) {
          plain += of_blocks.plain[image * shape.blocks() + block][c];
          centred += of_blocks.centred[image * shape.blocks() + block][c];
        }
        of_images.plain[image][c] = static_cast<float>(plain);
        of_images.centred[image][c] = static_cast<float>(centred);
        level += plain * weight[c];
        tilt += centred * weight[c];
      }
      const double r = rstd[image * shape.groups + group];
      const double count = static_cast<double>(size * shape.pixels);
      std::fill_n(levels[image] + group * size, size, static_cast<float>(level * r / count));
      std::fill_n(tilts[image] + group * size, size, static_cast<float>(tilt * r * r * r / count));
    }
  }

  void second(int64_t image, int64_t block) {
    static thread_local std::vector<float> room, made;
    const int64_t rows = shape.rows(block), count = rows * shape.channels;
    const int64_t offset = shape.offset(image, block);
    const float* x = as_floats(input + offset, count, room);
    loops(shape.channels)
        .input_gradient({rows, shape.channels}, x, before_silu(image, block, x, true),
                        affines[image], {levels[image], tilts[image]},
                        room_for(result + offset, count, made));
    put(made, count, result + offset);
  }

  void parameter_gradients(float* weight_gradient, float* bias_gradient) {
    for (int64_t c = 0; c < shape.channels; ++c) {
      double dw = 0, db = 0;
      for (int64_t image = 0; image < shape.images; ++image) {
        dw += static_cast<double>(of_images.centred[image][c]) *
              rstd[image * shape.groups + c / shape.group_size()];
        db += of_images.plain[image][c];
      }
      weight_gradient[c] = static_cast<float>(dw);
      bias_gradient[c] = static_cast<float>(db);
    }
  }
};

std::tuple<at::Tensor, at::Tensor, at::Tensor> group_norm_silu_backward_cpu(
    const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& weight,
    const at::Tensor& bias, const at::Tensor& mean, const at::Tensor& rstd, bool silu) {
  check_group_norm_silu(input, weight, bias, mean.size(1));
  const auto x = input.contiguous(at::MemoryFormat::ChannelsLast);
  const auto dy = gradient.to(x.scalar_type()).contiguous(at::MemoryFormat::ChannelsLast);
  const auto w = weight.to(at::kFloat).contiguous(), b = bias.to(at::kFloat).contiguous();
  const auto m = mean.contiguous(), r = rstd.contiguous();
  auto dx = at::empty_like(x, at::MemoryFormat::ChannelsLast);
  auto dw = at::zeros_like(w), db = at::zeros_like(b);
  if (x.numel() == 0) return {dx, at::zeros_like(weight), at::zeros_like(bias)};
  const Shape shape(x, mean.size(1));
  Affines affines(shape, w.const_data_ptr<float>(), b.const_data_ptr<float>());
  for (int64_t image = 0; image < shape.images; ++image) {
    affines.set(image, m.const_data_ptr<float>(), r.const_data_ptr<float>());
  }
  for_type(x.scalar_type(), [&](auto type) {
    using T = decltype(type);
    BackwardPass<T> pass{shape,
                         dy.const_data_ptr<T>(),
                         x.const_data_ptr<T>(),
                         r.const_data_ptr<float>(),
                         w.const_data_ptr<float>(),
                         silu,
                         dx.mutable_data_ptr<T>(),
                         affines};
    in_two_passes(shape, pass);
    pass.parameter_gradients(dw.mutable_data_ptr<float>(), db.mutable_data_ptr<float>());
  });
  return {dx, dw.to(weight.scalar_type()), db.to(bias.scalar_type())};
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CPU, m) {
  m.impl("group_norm_silu_backward", group_norm_silu_backward_cpu);
}

}  // namespace nsvq::group_norm_cpu
