#include "nsvq/ops/code_search/code_search_reference.h"

#include <gtest/gtest.h>

namespace nsvq::nearest_codes_test {
namespace {

/// Search by differences in fp64, one pair at a time; the lowest index wins ties.
torch::Tensor by_hand(const torch::Tensor& latents, const torch::Tensor& codebook) {
  const auto difference =
      latents.to(at::kDouble).unsqueeze(1) - codebook.to(at::kDouble).unsqueeze(0);
  const auto distances = difference.square().sum(2);
  auto indices = at::empty({latents.size(0)}, at::kLong);
  for (int64_t i = 0; i < latents.size(0); ++i) {
    int64_t best = 0;
    for (int64_t j = 1; j < codebook.size(0); ++j) {
      if (distances[i][j].item<double>() < distances[i][best].item<double>()) best = j;
    }
    indices[i] = best;
  }
  return indices;
}

// Small integers make every distance exact in fp32, so the comparison is exact and ties abound.
TEST(NearestCodes, EqualsDirectSearchOnIntegersWithTies) {
  torch::manual_seed(0);
  for (const int64_t n : {1, 31, 33}) {
    for (const int64_t k : {1, 31, 33}) {
      for (const int64_t d : {1, 2, 5}) {
        const auto latents = at::randint(-3, 4, {n, d}, at::kFloat);
        const auto codebook = at::randint(-3, 4, {k, d}, at::kFloat);
        EXPECT_TRUE(
            at::equal(nearest_codes_reference(latents, codebook), by_hand(latents, codebook)))
            << n << " latents, " << k << " codes, dimension " << d;
      }
    }
  }
}

TEST(NearestCodes, DuplicatedCodesGoToTheFirst) {
  const auto codebook = at::ones({5, 3});
  EXPECT_EQ(nearest_codes_reference(at::zeros({4, 3}), codebook).max().item<int64_t>(), 0);
}

TEST(NearestCodes, NoLatents) {
  EXPECT_EQ(nearest_codes_reference(at::empty({0, 3}), at::ones({5, 3})).sizes(),
            std::vector<int64_t>{0});
}

TEST(NearestCodes, NonContiguousInput) {
  torch::manual_seed(1);
  const auto latents = at::randint(-9, 9, {4, 33}, at::kFloat).t();
  const auto codebook = at::randint(-9, 9, {8, 31}, at::kFloat).t().slice(1, 0, 8, 2);
  EXPECT_TRUE(at::equal(nearest_codes_reference(latents, codebook), by_hand(latents, codebook)));
}

// More than one piece: 2^24 distances are held at a time.
TEST(NearestCodes, ManyPieces) {
  torch::manual_seed(2);
  const auto latents = at::randint(-9, 9, {600, 2}, at::kFloat);
  const auto codebook = at::randint(-9, 9, {1 << 16, 2}, at::kFloat);
  const auto indices = nearest_codes_reference(latents, codebook);
  for (const int64_t row : {0, 255, 256, 257, 599}) {
    EXPECT_TRUE(at::equal(indices.slice(0, row, row + 1),
                          nearest_codes_reference(latents.slice(0, row, row + 1), codebook)));
  }
}

TEST(NearestCodes, RefusesWhatHasNoAnswer) {
  auto bad = at::zeros({2, 3});
  bad[1][2] = NAN;
  EXPECT_THROW(nearest_codes_reference(bad, at::ones({5, 3})), c10::Error);
  EXPECT_THROW(nearest_codes_reference(at::ones({5, 3}), bad), c10::Error);
  EXPECT_THROW(nearest_codes_reference(at::ones({5, 3}), at::ones({5, 4})), c10::Error);
  EXPECT_THROW(nearest_codes_reference(at::ones({5, 3}), at::empty({0, 3})), c10::Error);
}

}  // namespace
}  // namespace nsvq::nearest_codes_test
