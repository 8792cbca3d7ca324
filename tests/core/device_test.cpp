#include "nsvq/core/device.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "nsvq/core/precision.h"
#include "tests/environment.h"

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

TEST(OutOfMemory, FiguresAreRead) {
  const auto on_gpu = read_out_of_memory(
      "CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of 139.80 GiB "
      "of which 1.25 GiB is free. Of the allocated memory 96.00 GiB is allocated by PyTorch, and "
      "1.00 GiB is reserved by PyTorch but unallocated.");
  EXPECT_TRUE(on_gpu.gpu);
  EXPECT_EQ(on_gpu.asked, 0.5);
  EXPECT_EQ(on_gpu.used, 96);
  const auto on_cpu = read_out_of_memory(
      "DefaultCPUAllocator: can't allocate memory: you tried to allocate 3221225472 bytes.");
  EXPECT_FALSE(on_cpu.gpu);
  EXPECT_EQ(on_cpu.asked, 3);
  EXPECT_EQ(on_cpu.used, std::nullopt);
  EXPECT_EQ(read_out_of_memory("std::bad_alloc").asked, std::nullopt);
}

TEST(DefaultThreads, AreThoseOfTheEnvironmentOrTheCores) {
  const Environment launcher("TORCHELASTIC_RUN_ID", std::nullopt);
  const auto threads = [](const std::optional<std::string>& asked, int processes) {
    const Environment openmp("OMP_NUM_THREADS", asked);
    return default_threads(processes);
  };
  EXPECT_EQ(threads(std::nullopt, 1), usable_cores());
  EXPECT_EQ(threads(std::nullopt, 100000), 1);
  EXPECT_EQ(threads("7", 1), 7);
  EXPECT_EQ(threads("7", 100000), 7);
  EXPECT_EQ(threads("1", 1), 1);
  EXPECT_EQ(threads("5,2", 1), 5);
  for (const auto* wrong : {"0", "-1", "many", "", "100000"}) {
    EXPECT_EQ(threads(wrong, 1), usable_cores()) << wrong;
  }
}

TEST(DefaultThreads, AreNotTheOneThatTorchrunSets) {
  const Environment launcher("TORCHELASTIC_RUN_ID", "none"), openmp("OMP_NUM_THREADS", "1");
  EXPECT_EQ(default_threads(2), std::max(usable_cores() / 2, 1));
  EXPECT_EQ(default_threads(1), 1) << "a single process is given none by torchrun";
}

TEST(DefaultThreads, GiveWayToASetting) {
  const Environment openmp("OMP_NUM_THREADS", "1");
  {
    const TorchFlags flags({.threads = 2});
    EXPECT_EQ(at::get_num_threads(), 2);
  }
  const TorchFlags flags({});
  EXPECT_EQ(at::get_num_threads(), 1);
}

}  // namespace
}  // namespace nsvq
