// The search by blocked matrix products where it takes several blocks, and where values are not
// finite. The table of cases goes through it as well (cases_test.cpp).

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "bench/cases.h"
#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/precision.h"
#include "nsvq/ops/code_search/code_search.h"
#include "nsvq/ops/code_search/code_search_reference.h"
#include "nsvq/ops/common/dispatch.h"
#include "tests/environment.h"
#include "tests/ops/backends.h"

namespace nsvq::blocked_test {
namespace {

using Tensor = torch::Tensor;

constexpr double kTau = 0.35;

double relative_error(const Tensor& result, const Tensor& right) {
  const auto exact = result.detach().to(at::kCPU, at::kDouble);
  return (exact - right.cpu()).norm().item<double>() / right.norm().item<double>();
}

class BlockedSearch : public testing::Test {
 protected:
  void SetUp() override {
    if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  }

 private:
  const Environment path_{"NSVQ_GPU_PATH", "blocked"};
  const Tf32Guard as_bench_ops_{Tf32Work::products, true};
};

struct Sizes {
  int64_t latents, codes, dimension;
};

/// Compares indices with fp64 differences, loss and gradient with fp64, where the error of the
/// plain version in fp32 is the measure.
void expect_right(const Sizes& sizes, const std::string& family) {
  const auto what =
      fmt::format("N {}, K {}, d {}, {}", sizes.latents, sizes.codes, sizes.dimension, family);
  const auto drawn =
      draw({what, sizes.latents, sizes.codes, sizes.dimension, family}, /*seed=*/7, at::kCUDA);
  const auto leaf = drawn.codebook.clone().requires_grad_();
  const auto found = ns_quantize(drawn.latents, leaf, kTau);
  found.loss.backward();
  const auto alone = std::get<0>(nearest_codes(drawn.latents, drawn.codebook));
  EXPECT_TRUE(at::equal(found.indices, alone)) << what;
  const auto some =
      at::arange(0, sizes.latents, std::max<int64_t>(sizes.latents / 100, 1), alone.options());
  const auto expected = std::get<0>(
      nearest_codes_fp64(drawn.latents.index_select(0, some).cpu(), drawn.codebook.cpu()));
  EXPECT_TRUE(at::equal(alone.index_select(0, some).cpu(), expected)) << what;
  const auto plain = [&](at::ScalarType type) {
    const auto codebook = drawn.codebook.to(type).detach().clone().requires_grad_();
    const auto loss = ns_loss_reference(drawn.latents.to(type), codebook, alone, kTau);
    loss.backward();
    return std::pair{loss.detach().to(at::kDouble), codebook.grad().to(at::kDouble)};
  };
  const auto [loss, gradient] = plain(at::kDouble);
  const auto [plain_loss, plain_gradient] = plain(at::kFloat);
  EXPECT_LE(relative_error(found.loss, loss), 2 * relative_error(plain_loss, loss) + 2e-4) << what;
  EXPECT_LE(relative_error(leaf.grad(), gradient),
            2 * relative_error(plain_gradient, gradient) + 2e-4)
      << what;
}

// Blocks of 2,048 latents by 8,192 codes; few latents have several panels of codes in a block.
TEST_F(BlockedSearch, OfSeveralBlocksOnTheGpu) {
  const Sizes several[] = {{5000, 20000, 16}, {2048, 8192, 12},  {2049, 8193, 24},
                           {70, 20001, 8},    {3, 70000, 300},   {9000, 2048, 5},
                           {1, 2049, 3},      {300, 1000, 2000}, {20000, 1100, 130}};
  for (const auto& sizes : several) {
    for (const char* family : {"random", "clustered"}) expect_right(sizes, family);
  }
}

TEST_F(BlockedSearch, OfCodesInEveryBlockThatAreCopiesOnTheGpu) {
  torch::manual_seed(4);
  const auto base = at::randn({100, 32}, at::kCUDA), codebook = base.repeat({300, 1});
  for (const int64_t latents : {40, 3000}) {
    const auto z = base.repeat({latents / 20, 1}).slice(0, 0, latents);
    const auto indices = std::get<0>(nearest_codes(z, codebook));
    EXPECT_TRUE(at::equal(indices.cpu(), at::arange(latents) % 100)) << latents;
  }
}

TEST_F(BlockedSearch, RepeatsItselfOnTheGpu) {
  const auto drawn = draw({"", 3000, 20000, 48, "crowded copies"}, /*seed=*/2, at::kCUDA);
  const auto run = [&] {
    const auto leaf = drawn.codebook.clone().requires_grad_();
    const auto found = ns_quantize(drawn.latents, leaf, kTau);
    found.loss.backward();
    return std::vector{found.indices, found.distances, found.loss.detach(), leaf.grad()};
  };
  const auto once = run(), again = run();
  for (size_t i = 0; i < once.size(); ++i) EXPECT_TRUE(at::equal(once[i], again[i])) << i;
}

TEST_F(BlockedSearch, IsAskedForByNameOnTheGpu) {
  const auto latents = at::randn({4, 300}, at::kCUDA), codebook = at::randn({9, 300}, at::kCUDA);
  const Environment path("NSVQ_GPU_PATH", "hopper");
  EXPECT_THROW(nearest_codes(latents, codebook), UserError) << "d is above 256";
  const Environment unknown("NSVQ_GPU_PATH", "fast");
  EXPECT_THROW(nearest_codes(latents, codebook), UserError);
}

using Searched = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

Searched search_with_grad(const Tensor& latents, const Tensor& codebook) {
  using Search = Searched(const Tensor&, const Tensor&, double);
  return operator_named<Search>("nsvq::ns_search_with_grad").call(latents, codebook, kTau);
}

TEST(SearchOfNonFiniteValues, IsTheSameByEveryPathOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  torch::manual_seed(5);
  const auto codebook = at::randn({3000, 20}, at::kCUDA) * 0.3;
  auto latents = at::randn({50, 20}, at::kCUDA) * 0.3;
  latents[7][3] = NAN;
  latents[30][19] = -INFINITY;
  const auto good = at::isfinite(latents).all(1);
  const auto finite = latents.index_select(0, good.nonzero().squeeze(1));
  for (const auto& backend : backends_on(at::kCUDA)) {
    const Environment path("NSVQ_GPU_PATH", backend.path);
    const auto [indices, distances, losses, denominators, grad] =
        search_with_grad(latents, codebook);
    EXPECT_TRUE(at::equal(indices.ge(0), good)) << backend.name;
    for (const auto& one : {distances, losses, denominators}) {
      EXPECT_TRUE(at::equal(at::isfinite(one), good)) << backend.name;
    }
    // They add nothing to the gradient.
    const auto expected = std::get<4>(search_with_grad(finite, codebook));
    EXPECT_LE(relative_error(grad, expected.to(at::kDouble)), 1e-3) << backend.name;

    auto bad = codebook.clone();
    bad[2999][0] = INFINITY;
    const auto of_bad = search_with_grad(finite, bad);
    EXPECT_TRUE(std::get<0>(of_bad).eq(-1).all().item<bool>()) << backend.name;
    EXPECT_TRUE(std::get<1>(of_bad).isnan().all().item<bool>()) << backend.name;
    EXPECT_TRUE(std::get<2>(of_bad).isnan().all().item<bool>()) << backend.name;
  }
}

TEST(SearchOfAllSizes, IsExactByEveryPathOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  torch::manual_seed(6);
  for (const int64_t dimension : {2, 16, 40}) {
    const auto z = at::randn({60, dimension}), c = at::randn({700, dimension});
    for (const double size : {1e-40, 1e-22, 1.0, 1e20, 5e37}) {
      const auto latents = z * size, codebook = c * size;
      const auto expected = std::get<0>(nearest_codes_fp64(latents, codebook));
      for (const auto& backend : backends_on(at::kCUDA)) {
        const Environment path("NSVQ_GPU_PATH", backend.path);
        const auto found = nearest_codes(latents.cuda(), codebook.cuda());
        EXPECT_TRUE(at::equal(std::get<0>(found).cpu(), expected))
            << backend.name << ", d = " << dimension << ", times " << size;
      }
    }
  }
}

}  // namespace
}  // namespace nsvq::blocked_test
