#include "nsvq/ops/group_norm/offset_norm_silu.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "nsvq/core/device.h"
#include "nsvq/ops/group_norm/group_norm_silu.h"
#include "tests/ops/norm_images.h"

namespace nsvq::offset_norm_silu_test {
namespace {

using torch::Tensor;

constexpr double kEps = 1e-5;

struct Size {
  int64_t images, channels, height, width, groups;
};

Tensor images(const Size& size) {
  return norm_images(size.images, size.channels, size.height, size.width);
}

/// What goes into the norm besides its input.
struct Parts {
  bool b, shift, offset, skip;
};

double distance(const Tensor& a, const Tensor& b) {
  return (a.cpu().to(at::kDouble) - b.cpu().to(at::kDouble)).norm().item<double>();
}

/// Expects the plain version's sum bit for bit, and a norm at most twice as far from fp64 as the
/// plain one of that type.
void expect_accurate(const Size& size, at::ScalarType type, const Parts& parts,
                     c10::Device device) {
  const torch::NoGradGuard no_grad;
  const auto of_type = [&](const Tensor& x) { return x.to(type).to(device); };
  auto own = size, rest = size;
  if (parts.skip) own.channels = size.channels / 3 * 2;
  rest.channels = size.channels - own.channels;
  const auto a = of_type(images(own));
  const NormOffsets offsets{parts.b ? of_type(images(own)) : Tensor(),
                            parts.shift ? of_type(at::randn({own.images, own.channels})) : Tensor(),
                            parts.offset ? at::randn({own.channels}).to(device) : Tensor(),
                            parts.skip ? of_type(images(rest)) : Tensor()};
  const auto weight = (at::randn({size.channels}) + 1).to(device);
  const auto bias = at::randn({size.channels}).to(device);
  for (const bool silu : {true, false}) {
    const auto label = ::testing::Message()
                       << a.sizes() << " " << type << " b " << parts.b << " shift " << parts.shift
                       << " offset " << parts.offset << " skip " << parts.skip << " SiLU " << silu;
    const auto [sum, output] =
        offset_norm_silu(a, offsets, weight, bias, size.groups, kEps, silu, /*keep_sum=*/true);
    const auto expected = sum_reference(a, offsets);
    EXPECT_LE(distance(sum, expected), 1e-6 * expected.to(at::kFloat).norm().item<double>())
        << label;
    const auto exact = group_norm_silu_reference(sum.to(at::kDouble), weight.to(at::kDouble),
                                                 bias.to(at::kDouble), size.groups, kEps, silu);
    const auto plain =
        group_norm_silu_reference(sum, weight.to(type), bias.to(type), size.groups, kEps, silu);
    EXPECT_LE(distance(output, exact),
              2 * distance(plain, exact) + 1e-6 * exact.norm().item<double>())
        << label;
    const auto without =
        offset_norm_silu(a, offsets, weight, bias, size.groups, kEps, silu, /*keep_sum=*/false);
    EXPECT_FALSE(without.sum.defined());
    EXPECT_TRUE(at::equal(without.output, output)) << label;
    if (!parts.b || parts.shift || parts.skip) continue;
    const auto over = offsets.b.clone(at::MemoryFormat::ChannelsLast);
    const auto same =
        offset_norm_silu_(a, over, offsets.offset, weight, bias, size.groups, kEps, silu);
    EXPECT_TRUE(at::equal(over, sum)) << label;
    EXPECT_TRUE(at::equal(same, output)) << label;
  }
}

/// Images that fit into the registers of a block, and some that do not.
void expect_accurate_on(c10::Device device) {
  torch::manual_seed(0);
  for (const auto& size : {Size{2, 256, 16, 16, 32},
                           {3, 512, 8, 8, 32},
                           {5, 1024, 4, 4, 32},
                           {2, 768, 16, 16, 32},
                           {1, 64, 31, 33, 32},
                           {2, 24, 9, 11, 6},
                           {2, 30, 5, 7, 10},
                           {0, 64, 4, 4, 32}}) {
    for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      for (int mask = 1; mask < 16; ++mask) {
        const Parts parts{(mask & 1) != 0, (mask & 2) != 0, (mask & 4) != 0, (mask & 8) != 0};
        expect_accurate(size, type, parts, device);
      }
    }
  }
}

TEST(OffsetNormSilu, OnTheCpu) { expect_accurate_on(at::kCPU); }

TEST(OffsetNormSilu, OnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  expect_accurate_on(at::kCUDA);
}

TEST(OffsetNormSilu, RefusesWhatDoesNotFit) {
  const torch::NoGradGuard no_grad;
  const auto a = images({2, 8, 3, 5, 4}), weight = at::ones({8}), bias = at::zeros({8});
  const auto with = [&](const NormOffsets& offsets) {
    return offset_norm_silu(a, offsets, weight, bias, 4, kEps, true, true);
  };
  EXPECT_THROW(with({{}, at::zeros({3, 8}), bias}), c10::Error);
  EXPECT_THROW(with({{}, {}, at::zeros({7})}), c10::Error);
  EXPECT_THROW(with({at::zeros({2, 8, 3, 4}), {}, bias}), c10::Error);
  EXPECT_THROW(with({{}, {}, bias, at::zeros({2, 8, 3, 4})}), c10::Error);
  EXPECT_THROW(with({{}, {}, bias, at::zeros({2, 4, 3, 5})}),
               c10::Error);  // 12 channels, 8 weights
  const auto over = [&](const Tensor& b) {
    return offset_norm_silu_(a, b, {}, weight, bias, 4, kEps, true);
  };
  EXPECT_THROW(over(a), c10::Error);
  EXPECT_THROW(over(at::zeros({2, 8, 3, 5})), c10::Error);  // channels are not adjacent
  const at::AutoGradMode gradients(true);
  EXPECT_THROW(with({{}, {}, bias}), c10::Error);
}

}  // namespace
}  // namespace nsvq::offset_norm_silu_test
