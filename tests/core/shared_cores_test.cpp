#include "nsvq/core/shared_cores.h"

#include <gtest/gtest.h>

#include <atomic>

#include "nsvq/core/parallel.h"

namespace nsvq {
namespace {

constexpr const char* kStat =
    "cpu  1000 20 300 4000 50 6 7 8 9 10\n"
    "cpu0 100 2 30 400 5 1 2 4 9 1\n"
    "cpu1 200 0 0 300 7 0 0 0 0 0\n"
    "cpu12 1000 0 0 300 7 0 0 0 0 0\n"
    "intr 12345 0 0\n"
    "cpufreq 9\n";

TEST(BusyTicks, LeaveOutIdleTimeAndCoresThatDoNotCount) {
  const auto only = [](int wanted) { return [wanted](int core) { return core == wanted; }; };
  EXPECT_EQ(busy_ticks(kStat, only(0)), 100 + 2 + 30 + 1 + 2 + 4);
  EXPECT_EQ(busy_ticks(kStat, only(1)), 200);
  EXPECT_EQ(busy_ticks(kStat, only(2)), 0);
  EXPECT_EQ(busy_ticks(kStat, [](int) { return true; }), 139 + 200 + 1000);
}

TEST(BusyTicks, OfTextThatIsCutOff) {
  const auto all = [](int) { return true; };
  EXPECT_EQ(busy_ticks("", all), 0);
  EXPECT_EQ(busy_ticks("cpu", all), 0);
  EXPECT_EQ(busy_ticks("cpu3", all), 0);
  EXPECT_EQ(busy_ticks("cpu3 5", all), 5);
  EXPECT_EQ(busy_ticks("cpu3 5 x", all), 5);
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
  EXPECT_EQ(describe_shared_cores(2, 2, 0.1), "");
  EXPECT_EQ(describe_shared_cores(2, 1, 2), "") << "one thread waits for none";
  EXPECT_EQ(describe_shared_cores(2, 2, 1.63),
            "other processes use 1.6 of 2 cores: threads sleep while they wait");
  EXPECT_EQ(describe_shared_cores(16, 16, 16.2),
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
