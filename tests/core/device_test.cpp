#include "nsvq/core/device.h"

#include <gtest/gtest.h>

namespace nsvq {
namespace {

TEST(OutOfMemory, SaysWhatWasAskedFor) {
  const auto text = describe_out_of_memory(
      "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 139.80 GiB "
      "of which 1.25 GiB is free. Process 1 has 138.55 GiB memory in use.");
  EXPECT_NE(text.find("20.00 GiB asked for, 1.25 GiB free of 139.80 GiB"), std::string::npos)
      << text;
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_EQ(describe_out_of_memory("anything else"), "out of memory");
  EXPECT_TRUE(is_out_of_memory("DefaultCPUAllocator: can't allocate memory: you tried ..."));
  EXPECT_TRUE(is_out_of_memory("CUDA out of memory. Tried to allocate 20.00 GiB."));
  EXPECT_FALSE(is_out_of_memory("mat1 and mat2 shapes cannot be multiplied"));
}

}  // namespace
}  // namespace nsvq
