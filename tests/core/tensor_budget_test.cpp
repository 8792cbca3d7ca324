#include "nsvq/core/device.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <thread>

#include "nsvq/core/error.h"
#include "tests/error_of.h"

namespace nsvq {
namespace {

TEST(TensorBudget, EndsWhereItsBytesDo) {
  torch::Tensor kept;
  {
    const TensorBudget budget(1 << 20, "too large");
    kept = at::ones({1000});
    EXPECT_EQ(error_of([] { at::empty({1 << 20}); }), "too large");
    EXPECT_EQ(error_of([] {
                for (int i = 0; i < 300; ++i) at::empty({1000});  // freed, and counted all the same
              }),
              "too large");
    std::thread([] { at::empty({1 << 20}); }).join();  // not this thread's
  }
  EXPECT_EQ(kept.sum().item<double>(), 1000);
  EXPECT_EQ(kept.resize_({1 << 20}).numel(), 1 << 20) << "by the allocator it came from";
  EXPECT_EQ(at::empty({1 << 20}).numel(), 1 << 20);
}

}  // namespace
}  // namespace nsvq
