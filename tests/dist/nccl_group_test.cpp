// NCCL needs a GPU for each rank, so these are of one rank: its collectives run and change nothing.

#include "nsvq/dist/group.h"

#include <gtest/gtest.h>

#include "nsvq/core/device.h"
#include "tests/error_of.h"

namespace nsvq {
namespace {

const c10::Device kGpu(at::kCUDA, 0);

std::shared_ptr<Group> group_by(const std::string& backend, c10::Device device) {
  return make_group(Launch{}, {.backend = backend, .device = device}, [](const std::string&) {});
}

TEST(MakeGroup, OfOneProcessIsAloneUnlessNcclIsNamed) {
  EXPECT_TRUE(group_by("auto", at::kCPU)->alone());
  EXPECT_TRUE(group_by("gloo", at::kCPU)->capturable());
  EXPECT_EQ(error_of<UserError>([] { group_by("nccl", at::kCPU); }),
            "dist.backend: nccl is for GPUs, and this run is on a CPU; use auto or gloo");
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  EXPECT_TRUE(group_by("auto", kGpu)->alone());
  const auto nccl = group_by("nccl", kGpu);
  EXPECT_FALSE(nccl->alone());
  EXPECT_TRUE(nccl->capturable());
  EXPECT_EQ(nccl->size(), 1);
}

TEST(NcclGroup, TakesEveryTypeAndLayout) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const auto group = group_by("nccl", kGpu);
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt,
                          at::kByte, at::kBool}) {
    for (const auto device : {c10::Device(at::kCPU), kGpu}) {
      const auto values = at::arange(24).remainder(2).to(device, type);
      const auto whole = values.clone().reshape({4, 6});
      const auto columns = values.clone().reshape({4, 6}).slice(1, 0, 6, 2);  // with gaps
      const auto nothing = at::empty({0, 3}, whole.options());
      group->sum({whole, columns.t(), nothing});
      group->broadcast({whole, columns.t(), nothing});
      if (const auto pending = group->start_sum(whole)) pending->wait();
      EXPECT_TRUE(at::equal(whole, values.reshape({4, 6}))) << type << device;
      EXPECT_TRUE(at::equal(columns, values.reshape({4, 6}).slice(1, 0, 6, 2))) << type << device;
    }
  }
  EXPECT_EQ(broadcast_text(*group, "by the CPU"), "by the CPU");
}

TEST(NcclGroup, GpuWorkBeforeAndAfterIsInOrder) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const auto group = group_by("nccl", kGpu);
  const auto large = at::zeros({1 << 24}, at::device(kGpu).dtype(at::kFloat));
  for (int i = 0; i < 20; ++i) {
    large.add_(1);
    const auto pending = group->start_sum(large);
    const auto beside = at::ones({1 << 20}, large.options()).cumsum(0);
    pending->wait();
    large.add_(1);
    EXPECT_EQ(beside[-1].item<float>(), 1 << 20);
  }
  EXPECT_TRUE(at::equal(large, at::full_like(large, 40)));
}

}  // namespace
}  // namespace nsvq
