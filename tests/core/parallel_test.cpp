#include "nsvq/core/threads/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <stdexcept>
#include <vector>

#include "tests/threads.h"

namespace nsvq {

namespace {

TEST(ParallelTasks, RunEachOnceOnAnyNumberOfThreads) {
  for (const int threads : {1, 2, 5}) {
    const Threads at_work(threads);
    for (const int64_t count : {0, 1, 2, 3, 1000}) {
      std::vector<std::atomic<int>> runs(count);
      parallel_tasks(count, [&](int64_t one) { ++runs[one]; });
      for (const auto& one : runs) EXPECT_EQ(one, 1);
    }
  }
}

/// Each of two tasks waits for the other to begin: one after the other they would never end.
TEST(ParallelTasks, RunAtTheSameTime) {
  const Threads at_work(2);
  std::barrier both(2);
  std::atomic<int> met{0};
  parallel_tasks(2, [&](int64_t) {
    both.arrive_and_wait();
    ++met;
  });
  EXPECT_EQ(met, 2);
}

TEST(ParallelTasks, OfATask) {
  const Threads at_work(2);
  std::atomic<int> runs{0};
  parallel_tasks(4, [&](int64_t) { parallel_tasks(3, [&](int64_t) { ++runs; }); });
  EXPECT_EQ(runs, 12);
}

TEST(ParallelTasks, ThrowWhatATaskThrows) {
  const auto throwing = [](int64_t one) {
    if (one == 7) throw std::out_of_range("seven");
  };
  EXPECT_THROW(parallel_tasks(8, throwing), std::out_of_range);
  std::atomic<int> runs{0};
  parallel_tasks(8, [&](int64_t) { ++runs; });
  EXPECT_EQ(runs, 8);
}

}  // namespace

}  // namespace nsvq
