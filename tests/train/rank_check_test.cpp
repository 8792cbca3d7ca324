#include "nsvq/train/rank_check.h"

#include <gtest/gtest.h>

#include "nsvq/core/error.h"
#include "tests/error_of.h"
#include "tests/two_ranks.h"

namespace nsvq {
namespace {

TEST(RankCheck, NamesTheFirstTensorThatDiffersInAnyBit) {
  on_two_ranks([](int rank, Group& group) {
    TensorMap tensors = {{"a", at::arange(7).to(at::kFloat)},
                         {"b", at::zeros({3, 3})},
                         {"c", at::ones({2}, at::kLong)},
                         {"empty", at::zeros({0})}};
    EXPECT_EQ(first_difference(group, tensors), "");
    if (rank == 1) tensors["b"][1][2] = -0.0f;  // an equal number with different bits
    EXPECT_EQ(first_difference(group, tensors), "b");
    tensors["b"].zero_();
    if (rank == 1) tensors["a"] = tensors["a"].flip(0);  // equal bytes at other positions
    EXPECT_EQ(first_difference(group, tensors), "a");
    EXPECT_EQ(error_of<RunError>([&] { require_equal_ranks(group, tensors, "step 3"); }),
              "step 3: ranks differ, first in a; all ranks must run the same program, recipe and "
              "data");
  });
}

}  // namespace
}  // namespace nsvq
