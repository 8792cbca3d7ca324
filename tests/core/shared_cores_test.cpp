#include "nsvq/core/threads/shared_cores.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <map>
#include <thread>

#include "nsvq/core/threads/parallel.h"

namespace nsvq {
namespace {

constexpr const char* kStat =
    "cpu  1000 20 300 4000 50 6 7 8 9 10\n"
    "cpu0 100 2 30 400 5 1 2 4 9 1\n"
    "cpu1 200 0 0 300 7 0 0 0 0 0\n"
    "cpu12 1000 0 0 300 7 0 0 0 0 0\n"
    "intr 12345 0 0\n"
    "cpufreq 9\n";

using Ticks = std::map<int, double>;

TEST(BusyTicks, LeaveOutIdleTime) {
  EXPECT_EQ(busy_ticks(kStat), (Ticks{{0, 100 + 2 + 30 + 1 + 2 + 4}, {1, 200}, {12, 1000}}));
}

TEST(BusyTicks, OfTextThatIsCutOff) {
  EXPECT_EQ(busy_ticks(""), Ticks());
  EXPECT_EQ(busy_ticks("cpu"), Ticks());
  EXPECT_EQ(busy_ticks("cpu3"), (Ticks{{3, 0}}));
  EXPECT_EQ(busy_ticks("cpu3 5"), (Ticks{{3, 5}}));
  EXPECT_EQ(busy_ticks("cpu3 5 x"), (Ticks{{3, 5}}));
}

TEST(CoreUse, OfOthersIsWhatThisProcessDidNotUse) {
  EXPECT_DOUBLE_EQ((CoreUse{{{0, 0.9}, {1, 0.6}}, 1.1}.others()), 0.4);
  EXPECT_EQ((CoreUse{{{0, 0.5}, {1, 0.5}}, 1.1}.others()), 0) << "ticks are counted, not measured";
}

TEST(CoreUse, SumsThisProcessOverItsThreads) {
  CoreUseMeter meter;
  const auto busy_until = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  while (std::chrono::steady_clock::now() < busy_until) {
  }
  const auto use = meter.since_last();
  EXPECT_GT(use.own, 0);
  EXPECT_EQ(use.cores(), CPU_COUNT(&own_cores()));
}

TEST(TooFewCores, WhereOthersNeedWhatTheThreadsUse) {
  EXPECT_FALSE(too_few_cores(2, 2, 0.2, false));
  EXPECT_TRUE(too_few_cores(2, 2, 0.2, true));  // so that it does not go to and fro
  EXPECT_FALSE(too_few_cores(2, 2, 0.1, true));
  EXPECT_TRUE(too_few_cores(2, 2, 1, false));
  EXPECT_FALSE(too_few_cores(64, 8, 50, false));
  EXPECT_TRUE(too_few_cores(64, 8, 57, false));
  EXPECT_FALSE(too_few_cores(2, 1, 5, true));  // one thread waits for none
}

TEST(TooFewCores, AreSaidInALine) {
  EXPECT_EQ(describe_shared_cores({{{0, 0.9}, {1, 0.1}}, 0.9}, 2), "");
  EXPECT_EQ(describe_shared_cores({{{0, 1}, {1, 1}}, 0}, 1), "") << "one thread waits for none";
  EXPECT_EQ(describe_shared_cores({}, 2), "") << "without /proc";
  EXPECT_EQ(describe_shared_cores({{{0, 1}, {1, 0.63}}, 0}, 2),
            "other processes use 1.6 of 2 cores: threads sleep while they wait");
  CoreUse many;
  for (int core = 0; core < 16; ++core) many.busy[core] = 1;
  EXPECT_EQ(describe_shared_cores(many, 16),
            "other processes use 16.0 of 16 cores: threads sleep while they wait");
}

TEST(TeamsAbove, AreTheFewestWithMoreThreadsThanCores) {
  EXPECT_EQ(teams_above(2, 1), 0);
  EXPECT_EQ(teams_above(1, 2), 1);
  for (const auto& [cores, threads] :
       {std::pair{2, 2}, {3, 2}, {64, 32}, {64, 64}, {64, 33}, {16, 4}, {5, 3}}) {
    const int idle = teams_above(cores, threads);
    const auto all = [&](int teams) { return 1 + (teams + 1) * (threads - 1); };
    EXPECT_GT(all(idle), cores) << cores << " " << threads;
    if (idle > 1) EXPECT_LE(all(idle - 1), cores) << cores << " " << threads;
  }
}

TEST(ComputeThreads, AreKnownToAThreadThatBeganBeforeTheyWereSet) {
  const int before = at::get_num_threads();
  std::barrier both(2);
  int known = 0;
  std::thread other([&] {
    EXPECT_EQ(at::get_num_threads(), before);
    both.arrive_and_wait();
    both.arrive_and_wait();
    known = compute_threads();
  });
  both.arrive_and_wait();
  set_compute_threads(before + 1);
  both.arrive_and_wait();
  other.join();
  EXPECT_EQ(known, before + 1);
  EXPECT_EQ(at::get_num_threads(), before + 1);
  set_compute_threads(before);
}

TEST(SharedCores, EndsAtOnceAndLeavesThePoolUsable) {
  for (int i = 0; i < 20; ++i) {
    const SharedCores cores;
    std::atomic<int> done = 0;
    parallel_tasks(31, [&](int64_t) { ++done; });
    EXPECT_EQ(done, 31);
  }
}

}  // namespace
}  // namespace nsvq
