// The error bound of the blocked search, which needs no GPU, and the choice of kernels.

#include "nsvq/ops/code_search/blocked/blocked_bound.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "bench/cases.h"
#include "nsvq/core/error.h"
#include "nsvq/ops/code_search/gpu_path.h"
#include "tests/environment.h"

namespace nsvq::blocked_bound_test {
namespace {

using blocked::RowNorms;
using Tensor = torch::Tensor;

/// Rows as blocked_pack.cu makes them: centred, scaled, rounded to TF32.
struct Packed {
  Packed(const Tensor& matrix, const Tensor& centre, float scale)
      : exact((matrix.to(at::kDouble) - centre.to(at::kDouble)) * scale),
        values(at::empty_like(matrix)),
        squares(at::empty({matrix.size(0)})) {
    const auto placed = matrix * scale - centre * scale;
    const auto from = placed.accessor<float, 2>();
    auto to = values.accessor<float, 2>();
    for (int64_t i = 0; i < matrix.size(0); ++i) {
      float square = 0, error = 0;
      for (int64_t k = 0; k < matrix.size(1); ++k) {
        const float value = from[i][k];
        const float rounded = blocked::rounded_to_tf32(value);
        square = std::fma(value, value, square);
        error = std::fma(rounded - value, rounded - value, error);
        to[i][k] = rounded;
      }
      squares[i] = square;
      norms.push_back(blocked::norms_of(square, error));
    }
  }

  Tensor exact, values, squares;
  std::vector<RowNorms> norms;
};

/// The scale that puts the largest value between 2^13 and 2^14, as unit_of (error_bounds.cuh) does.
float scale_for(const Tensor& latents, const Tensor& codebook) {
  const auto largest =
      std::max(latents.abs().max().item<float>(), codebook.abs().max().item<float>());
  return std::ldexp(1.0f, std::min(13 - (largest > 0 ? std::ilogb(largest) : 0), 110));
}

struct Errors {
  double largest_share = 0;  ///< the largest error as a share of its bound
  int64_t beyond = 0;
};

Errors errors_of(const Tensor& latents, const Tensor& codebook, const Tensor& centre) {
  const float scale = scale_for(latents, codebook);
  const Packed z(latents, centre, scale), c(codebook, centre, scale);
  const auto scores = c.squares - 2 * at::mm(z.values, c.values.t());
  const auto right = c.exact.square().sum(1) - 2 * at::mm(z.exact, c.exact.t());
  const auto all_off = (scores.to(at::kDouble) - right).abs();
  const auto off = all_off.accessor<double, 2>();
  const float product_error = blocked::product_error(latents.size(1));
  Errors errors;
  for (int64_t i = 0; i < latents.size(0); ++i) {
    for (int64_t j = 0; j < codebook.size(0); ++j) {
      const double share = off[i][j] / blocked::score_error(z.norms[i], c.norms[j], product_error);
      errors.largest_share = std::max(errors.largest_share, share);
      if (!(share <= 1)) ++errors.beyond;
    }
  }
  return errors;
}

TEST(BlockedBound, HoldsForEveryFamily) {
  for (const auto& family : code_families()) {
    for (const int64_t dimension : {1, 3, 31, 128, 1024}) {
      const auto drawn = draw({family, 8, 40, dimension, family}, /*seed=*/3, at::kCPU);
      for (const double size : {1e-30, 1.0, 1e30}) {
        const auto z = drawn.latents * size, c = drawn.codebook * size;
        if (!at::isfinite(c).all().item<bool>()) continue;  // huge values times 1e30
        for (const auto& centre : {c.mean(0), at::zeros({dimension})}) {
          EXPECT_EQ(errors_of(z, c, centre).beyond, 0)
              << family << ", d = " << dimension << ", times " << size;
        }
      }
    }
  }
}

/// Rounding errors that all have one sign come close to the bound: each of its terms is needed.
TEST(BlockedBound, IsNotMuchLargerThanErrorsCanBe) {
  const float unlucky = 1 + 0x0.ffep-11f;  // almost half a unit of 11 bits is rounded away
  const auto origin = at::zeros({16});
  const auto row = [](float value, int64_t d) { return at::full({1, d}, value); };
  const auto of_latents = errors_of(row(unlucky, 16), row(0.25, 16), origin);
  const auto of_codes = errors_of(row(256, 16), row(unlucky, 16), origin);
  for (const auto& errors : {of_latents, of_codes}) {
    EXPECT_EQ(errors.beyond, 0);
    EXPECT_GT(errors.largest_share, 0.8);
  }
}

TEST(BlockedBound, HoldsForValuesOfAllSizesTogether) {
  torch::manual_seed(0);
  const auto sizes = [](int64_t rows) { return at::pow(10.0, at::rand({rows, 1}) * 70 - 36); };
  for (const int64_t dimension : {1, 16, 100}) {
    const auto z = at::randn({20, dimension}) * sizes(20);
    const auto c = at::randn({60, dimension}) * sizes(60);
    EXPECT_EQ(errors_of(z, c, at::zeros({dimension})).beyond, 0) << dimension;
  }
}

TEST(BlockedBound, RoundsToElevenBits) {
  for (const float value : {0.0f, 1.0f, -3.5f, 1 + 0x1p-10f, 2047.0f, -0x1p-126f, 0x1p100f}) {
    EXPECT_EQ(blocked::rounded_to_tf32(value), value);
  }
  EXPECT_EQ(blocked::rounded_to_tf32(2049), 2050);  // away from zero
  EXPECT_EQ(blocked::rounded_to_tf32(-2049), -2050);
  EXPECT_EQ(blocked::rounded_to_tf32(4097), 4096);
  EXPECT_EQ(blocked::rounded_to_tf32(1 + 0x1p-11f + 0x1p-20f), 1 + 0x1p-10f);
}

TEST(GpuPath, IsWhatTheEnvironmentAsksFor) {
  const auto asked = [](std::optional<std::string> value) {
    const Environment set("NSVQ_GPU_PATH", std::move(value));
    return asked_gpu_path();
  };
  EXPECT_EQ(asked(std::nullopt), GpuPath::automatic);
  EXPECT_EQ(asked(""), GpuPath::automatic);
  EXPECT_EQ(asked("hopper"), GpuPath::hopper);
  EXPECT_EQ(asked("sm80"), GpuPath::sm80);
  EXPECT_EQ(asked("sm86"), GpuPath::sm86);
  EXPECT_EQ(asked("blocked"), GpuPath::blocked);
  EXPECT_THROW(asked("portable"), UserError);
}

}  // namespace
}  // namespace nsvq::blocked_bound_test
