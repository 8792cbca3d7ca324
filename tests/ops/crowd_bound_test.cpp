// The error bound of latents in crowds, which needs no GPU.

#include "nsvq/ops/code_search/crowds/crowd_bound.h"

#include <c10/util/Half.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace nsvq::crowd_bound_test {
namespace {

using crowds::Difference;

/// A row of differences as pack_difference (crowd_rows.cuh) makes it, and the exact one.
struct Packed {
  Packed(const float* row, const float* centre, int64_t d, float scale) {
    std::vector<float> differences;
    float top = 0;
    for (int64_t k = 0; k < d; ++k) {
      differences.push_back((row[k] - centre[k]) * scale);
      exact.push_back((static_cast<double>(row[k]) - centre[k]) * scale);
      top = std::max(top, std::abs(differences.back()));
    }
    const int exponent = crowds::exponent_for(top);
    float square = 0, lost = 0;
    for (const float value : differences) {
      const float up = std::ldexp(value, exponent);
      const float rounded = static_cast<c10::Half>(up);
      const float off = std::ldexp(up - rounded, -exponent);
      square = std::fma(value, value, square);
      lost = std::fma(off, off, lost);
      values.push_back(rounded);
    }
    known = crowds::difference_of(square, lost, std::ldexp(1.0f, -exponent));
  }
  std::vector<double> exact;
  std::vector<float> values;
  Difference known{};
};

/// The score of crowd_mma.cuh. Products are added in fp32, cut off towards zero as a tensor core
/// may.
float score_of(const Packed& latent, const Packed& code) {
  float sum = 0;
  for (size_t k = 0; k < code.values.size(); ++k) {
    const double next =
        static_cast<double>(sum) + static_cast<double>(latent.values[k]) * code.values[k];
    sum = static_cast<float>(next);
    if (std::abs(sum) > std::abs(next)) sum = std::nextafter(sum, 0.0f);
  }
  return std::fma(sum * code.known.unit, 2 * latent.known.unit, -code.known.square);
}

double exact_score(const Packed& latent, const Packed& code) {
  double score = 0;
  for (size_t k = 0; k < code.exact.size(); ++k) {
    score += (2 * latent.exact[k] - code.exact[k]) * code.exact[k];
  }
  return score;
}

/// The largest error of a crowd's scores, as a share of the bound, and of the squared distances.
struct Shares {
  double bound = 0, distance = 0;
};

Shares measure(int64_t d, float spread, float apart, float scale) {
  const auto options = torch::TensorOptions().dtype(at::kFloat);
  const auto centre = at::randn({1, d}, options);
  const auto latents = centre + at::randn({40, d}, options) * spread;
  const auto codes = centre + at::randn({60, d}, options) * apart;
  const float kappa = (20.0f * static_cast<float>((d + 63) / 64 * 4) + 4) * 0x1p-23f;
  Shares shares;
  for (int64_t i = 0; i < latents.size(0); ++i) {
    const Packed latent(latents.const_data_ptr<float>() + i * d, codes.const_data_ptr<float>(), d,
                        scale);
    const auto slopes = crowds::slopes_of(latent.known, kappa);
    for (int64_t j = 0; j < codes.size(0); ++j) {
      const Packed code(codes.const_data_ptr<float>() + j * d, codes.const_data_ptr<float>(), d,
                        scale);
      const double off = std::abs(score_of(latent, code) - exact_score(latent, code));
      const float bound = crowds::score_error(slopes, code.known);
      shares.bound = std::max(shares.bound, off / bound);
      const double square = latent.known.norm * latent.known.norm;
      shares.distance = std::max(shares.distance, bound / square);
    }
  }
  return shares;
}

TEST(CrowdBound, HoldsAndShrinksWithTheCrowd) {
  torch::manual_seed(3);
  for (const int64_t d : {8, 31, 128, 256}) {
    for (const float scale : {1.0f, 8192.0f, 0x1p-40f}) {
      const auto wide = measure(d, 0.1f, 1e-2f, scale), tight = measure(d, 0.1f, 1e-4f, scale);
      for (const auto& shares : {wide, tight}) EXPECT_LE(shares.bound, 1) << d << ", " << scale;
      if (scale < 1) continue;  // the smallest squares have constants for bounds
      EXPECT_LT(tight.distance, 0.02 * wide.distance) << d << ", " << scale;
    }
  }
}

TEST(CrowdBound, OfALatentThatIsItsCentre) {
  const std::vector<float> row = {1, -2, 3e-20f, 0.5f, 0, 7, 8, 9};
  const Packed same(row.data(), row.data(), 8, 1024);
  EXPECT_EQ(same.known.square, 0);
  EXPECT_EQ(score_of(same, same), 0);
  EXPECT_GT(crowds::score_error(crowds::slopes_of(same.known, 1e-5f), same.known), 0);
}

}  // namespace
}  // namespace nsvq::crowd_bound_test
