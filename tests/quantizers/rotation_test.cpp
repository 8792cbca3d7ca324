#include <gtest/gtest.h>

#include "nsvq/quantizers/losses_of_codes.h"
#include "tests/error_of.h"
#include "tests/quantizers/golden.h"
#include "tests/quantizers/members.h"

namespace nsvq {
namespace {

TEST(Rotation, EqualsTheReference) { check_golden("rotation", 2); }

torch::Tensor gradient_of(const torch::Tensor& code, const torch::Tensor& latent,
                          const torch::Tensor& weight) {
  const auto z = latent.clone().requires_grad_();
  (rotate_through(code, z) * weight).sum().backward();
  return z.grad();
}

torch::Tensor vector_of(std::vector<double> values) {
  return at::tensor(values, at::kDouble).view({1, -1, 1, 1});
}

TEST(Rotation, GivesTheCodesBitForBit) {
  torch::manual_seed(1);
  const auto codes = at::randn({2, 5, 3, 4}), z = at::randn({2, 5, 3, 4}).requires_grad_();
  EXPECT_TRUE(at::equal(rotate_through(codes, z), codes));
}

// A gradient keeps its angle to the code when it goes back to the latent, and is scaled by the
// ratio of their lengths.
TEST(Rotation, IsARotationAndAScaling) {
  torch::manual_seed(2);
  const auto code = at::randn({1, 6, 1, 1}, at::kDouble), z = at::randn({1, 6, 1, 1}, at::kDouble);
  const auto weight = at::randn({1, 6, 1, 1}, at::kDouble);
  const auto gradient = gradient_of(code, z, weight);
  const double ratio = (code.norm() / z.norm()).item<double>();
  EXPECT_NEAR(gradient.norm().item<double>(), ratio * weight.norm().item<double>(), 1e-12);
  EXPECT_NEAR((gradient * z).sum().item<double>() / z.norm().item<double>(),
              ratio * (weight * code).sum().item<double>() / code.norm().item<double>(), 1e-12);
}

TEST(Rotation, ByHand) {
  // A quarter turn from x to y and a doubling: what pulls along y pulls the latent along x.
  const auto gradient = gradient_of(vector_of({0, 2}), vector_of({1, 0}), vector_of({0, 1}));
  EXPECT_TRUE(at::allclose(gradient, vector_of({2, 0}), 0, 1e-12));
}

TEST(Rotation, AlignedVectorsLeaveTheDirection) {
  const auto weight = vector_of({0.3, -0.2, 0.9});
  const auto gradient = gradient_of(vector_of({2, 4, -2}), vector_of({1, 2, -1}), weight);
  EXPECT_TRUE(at::allclose(gradient, 2 * weight, 0, 1e-12));
}

TEST(Rotation, ZeroAndOppositeVectorsStayFinite) {
  const auto zero = vector_of({0, 0}), one = vector_of({1, 0}), weight = vector_of({1, 1});
  for (const auto& [code, z] : {std::pair{zero, one}, {one, zero}, {one, -one}, {zero, zero}}) {
    EXPECT_TRUE(at::isfinite(gradient_of(code, z, weight)).all().item<bool>());
  }
}

/// The latents' gradient of a weighted sum of what a member gives the decoder.
torch::Tensor gradient_of_member(const Member& one) {
  const auto quantizer = make(one);
  const auto z = latents_for(one).requires_grad_();
  const auto weight = at::randn_like(z);  // by the seed of latents_for
  const auto result = quantizer->quantize(z, {});
  EXPECT_TRUE(at::equal(result.latents, quantizer->decode(result.indices)));
  (result.latents * weight).sum().backward();
  return z.grad();
}

TEST(Rotation, MembersRotateOrRefuseAsTheirKindSays) {
  int rotating = 0;
  for (const auto& kind : quantizer_kinds()) {
    SCOPED_TRACE(kind.name);
    auto plain = member(kind.name), rotated = member(kind.name);
    rotated.config.rotation = true;
    if (kind.rotates) {
      EXPECT_FALSE(at::allclose(gradient_of_member(rotated), gradient_of_member(plain)));
      ++rotating;
    } else {
      EXPECT_NE(error_of([&] { make(rotated); }).find("quantizer.rotation"), std::string::npos);
    }
  }
  EXPECT_GE(rotating, 1);
}

}  // namespace
}  // namespace nsvq
