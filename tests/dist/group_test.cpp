#include "nsvq/dist/group.h"

#include <gtest/gtest.h>

#include "tests/environment.h"
#include "tests/error_of.h"
#include "tests/two_ranks.h"

namespace nsvq {
namespace {

TEST(Group, OneProcessIsAGroupOfOne) {
  const auto group = make_single_group();
  EXPECT_EQ(group->rank(), 0);
  EXPECT_EQ(group->size(), 1);
  EXPECT_TRUE(group->leads());
  const auto whole = at::arange(6).reshape({2, 3}), columns = whole.t();
  group->sum({whole, columns});
  group->broadcast({whole, columns});
  EXPECT_TRUE(at::equal(whole, at::arange(6).reshape({2, 3})));
  group->sum({});
  group->broadcast({});
  EXPECT_TRUE(at::equal(gather(*group, whole), whole.unsqueeze(0)));
  EXPECT_EQ(broadcast_text(*group, "two\nlines"), "two\nlines");
  EXPECT_EQ(broadcast_text(*group, ""), "");
}

// The helper on which other tests of several ranks rely.
TEST(TwoRanks, SumAndBroadcast) {
  on_two_ranks([](int rank, Group& group) {
    EXPECT_EQ(group.rank(), rank);
    EXPECT_EQ(group.size(), 2);
    EXPECT_EQ(group.leads(), rank == 0);
    for (int round = 0; round < 50; ++round) {
      const auto first = at::full({3}, rank + round), second = at::full({2, 2}, 10.5 * rank);
      group.sum({first, second.t()});
      EXPECT_TRUE(at::equal(first, at::full({3}, 1 + 2 * round))) << rank;
      EXPECT_TRUE(at::equal(second, at::full({2, 2}, 10.5))) << rank;
      const auto own = at::full({4}, 7 * rank + round);
      group.broadcast({own});
      EXPECT_TRUE(at::equal(own, at::full({4}, round))) << rank;
    }
  });
}

}  // namespace
}  // namespace nsvq
