// Runs as processes: order, retries, failures, stops.

#include "nsvq/experiments/run/scheduler.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "nsvq/core/interrupt.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "tests/reset_signals.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

/// Jobs whose program is a shell that runs one script; a job is done once its file is there.
class SchedulerTest : public testing::Test {
 protected:
  SchedulerTest() {
    options_.program = "/bin/sh";
    options_.environments = {"", ""};
    options_.say = [this](const std::string& line) { lines_.push_back(line); };
  }
  size_t add(const std::string& name, const std::string& script, std::vector<size_t> needs = {}) {
    const auto folder = folder_ / name;
    jobs_.push_back(
        {name, folder, std::move(needs), {}, [folder, script]() -> std::vector<std::string> {
           if (fs::exists(folder / "done")) return {};
           return {"-c", "cd '" + folder.string() + "' && " + script};
         }});
    return jobs_.size() - 1;
  }
  std::vector<JobResult> run() { return run_jobs(jobs_, options_); }
  std::string text(const std::string& name, const std::string& file) {
    return read_text(folder_ / name / file);
  }

  TemporaryFolder folder_;
  ScheduleOptions options_;
  std::vector<Job> jobs_;
  std::vector<std::string> lines_;
};

TEST_F(SchedulerTest, NeedsComeFirst) {
  const auto first = add("first", "sleep 0.2; touch done");
  add("second", "ls ../first > done", {first});
  const auto results = run();
  EXPECT_TRUE(results[0].finished && results[1].finished);
  EXPECT_NE(text("second", "done").find("done"), std::string::npos);
}

TEST_F(SchedulerTest, AFailureIsTriedOnceMore) {
  add("flaky", "echo x >> tries; test $(wc -l < tries) = 2 && touch done");
  EXPECT_TRUE(run()[0].finished);
  EXPECT_EQ(text("flaky", "tries"), "x\nx\n");
}

TEST_F(SchedulerTest, AfterTwoFailuresTheRestGoesOn) {
  const auto bad = add("bad", "echo x >> tries; echo 'nsvq: no room' >&2; exit 3");
  add("needs-bad", "touch done", {bad});
  add("good", "touch done");
  const auto results = run();
  EXPECT_EQ(results[0].problem, "no room");
  EXPECT_EQ(text("bad", "tries"), "x\nx\n");
  EXPECT_EQ(results[1].problem, "needs bad, which failed: no room");
  EXPECT_FALSE(fs::exists(folder_ / "needs-bad" / "done"));
  EXPECT_TRUE(results[2].finished);
}

TEST_F(SchedulerTest, RefusedSettingsAreNotTriedAgain) {
  add("refused", "echo x >> tries; echo 'nsvq: a.yaml:1: wrong' >&2; exit 2");
  EXPECT_EQ(run()[0].problem, "a.yaml:1: wrong");
  EXPECT_EQ(text("refused", "tries"), "x\n");
}

TEST_F(SchedulerTest, AKilledProcessSaysSo) {
  add("killed", "kill -KILL $$");
  EXPECT_EQ(run()[0].problem.rfind("killed by signal 9", 0), 0u);
}

TEST_F(SchedulerTest, SuccessWithoutAResultEnds) {
  add("empty", "true");
  EXPECT_NE(run()[0].problem.find("ended without an error"), std::string::npos);
}

TEST_F(SchedulerTest, WhatIsDoneIsNotStarted) {
  write_text(folder_ / "old" / "done", "");
  add("old", "touch again");
  EXPECT_TRUE(run()[0].finished);
  EXPECT_TRUE(lines_.empty());
}

TEST_F(SchedulerTest, WhatIsNotWantedIsNotStarted) {
  const auto other = add("other", "touch done");
  jobs_.back().wanted = false;
  write_text(folder_ / "old" / "done", "");
  add("old", "touch again");
  jobs_.back().wanted = false;
  add("needs-other", "touch done", {other});
  add("wanted", "touch done", {1});
  const auto results = run();
  EXPECT_FALSE(results[0].finished);
  EXPECT_TRUE(results[0].problem.empty());
  EXPECT_TRUE(results[1].finished);
  EXPECT_FALSE(results[2].finished);
  EXPECT_TRUE(results[3].finished);
}

TEST_F(SchedulerTest, AStopIsPassedOn) {
  add("long", "trap 'touch saved; exit 143' TERM; touch started; while :; do sleep 0.05; done");
  add("later", "touch done", {0});
  reset_signals();
  catch_interrupts();
  std::thread stop([&] {
    while (!fs::exists(folder_ / "long" / "started")) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ::kill(::getpid(), SIGTERM);
  });
  EXPECT_THROW(run(), Interrupted);
  stop.join();
  EXPECT_TRUE(fs::exists(folder_ / "long" / "saved"));
  EXPECT_FALSE(fs::exists(folder_ / "later" / "done"));
  catch_interrupts();  // forgets the signal
}

/// When one pilot fails, the rest decide.
TEST_F(SchedulerTest, OneOfSeveralTriesIsEnough) {
  const auto bad = add("bad", "exit 2"), good = add("good", "touch done");
  const auto one = add("one", "touch done"), none = add("none", "touch done");
  jobs_[one].tries = {bad, good};
  jobs_[none].tries = {bad};
  const auto results = run();
  EXPECT_TRUE(results[one].finished);
  EXPECT_FALSE(results[none].finished);
  EXPECT_NE(results[none].problem.find("bad"), std::string::npos) << results[none].problem;
}

TEST_F(SchedulerTest, NoShellReadsTheWords) {
  options_.program = "/usr/bin/touch";
  const auto file = folder_ / "a b; touch $(echo c)";
  jobs_.push_back({"odd", folder_.path() / "odd", {}, {}, [file]() -> std::vector<std::string> {
                     if (fs::exists(file)) return {};
                     return {file.string()};
                   }});
  EXPECT_TRUE(run()[0].finished);
}

TEST_F(SchedulerTest, ASlotsVariableIsSet) {
  options_.environments = {"NSVQ_SLOT=one; two"};
  add("slot", "printf %s \"$NSVQ_SLOT\" > done");
  EXPECT_TRUE(run()[0].finished);
  EXPECT_EQ(text("slot", "done"), "one; two");
}

TEST_F(SchedulerTest, WhatIsToBeAloneIs) {
  options_.environments = {"CUDA_VISIBLE_DEVICES=a", "CUDA_VISIBLE_DEVICES=b"};
  options_.gpus = {"a", "b", "c"};
  const std::string others = "ls -d ../*/busy 2> /dev/null | grep -v \"$(basename $PWD)\" > seen; ";
  const auto script = "touch busy; sleep 0.1; " + others + "rm busy; printf %s \"$" +
                      "CUDA_VISIBLE_DEVICES\" > done";
  add("first", script);
  add("wide", script);
  jobs_.back().gpus = 2;
  jobs_.back().alone = true;
  add("last", script);
  for (const auto& result : run()) EXPECT_TRUE(result.finished);
  EXPECT_EQ(text("wide", "done"), "a,b");
  EXPECT_EQ(text("last", "done").size(), 1u);
  for (const auto* name : {"first", "wide", "last"}) EXPECT_EQ(text(name, "seen"), "") << name;
}

TEST_F(SchedulerTest, WhatIsToBeAloneAndDoneHoldsNobodyUp) {
  const std::string meet =
      "touch here; for i in $(seq 500); do test -e ../OTHER/here && touch done "
      "&& exit; sleep 0.02; done; exit 3";
  const auto meets = [&](std::string other) {
    return std::string(meet).replace(meet.find("OTHER"), 5, other);
  };
  add("first", meets("last"));
  write_text(folder_ / "old" / "done", "");
  add("old", "touch again");
  jobs_.back().alone = true;
  add("last", meets("first"));
  for (const auto& result : run()) EXPECT_TRUE(result.finished) << result.problem;
}

TEST_F(SchedulerTest, NoJobBeginsAfterTheMinutes) {
  options_.environments = {""};
  options_.minutes = 0.5 / 60;
  write_text(folder_ / "old" / "done", "");
  // Two commands: the second one belongs to a job that has begun.
  add("first", "sleep 0.6; test -e half && touch done || touch half");
  add("second", "touch done");
  add("third", "touch done", {1});
  add("old", "touch again");
  auto results = run();
  EXPECT_TRUE(results[0].finished);
  for (const size_t late : {1, 2}) {
    EXPECT_FALSE(results[late].finished);
    EXPECT_EQ(results[late].problem, "");
  }
  EXPECT_TRUE(results[3].finished);
  options_.minutes = 0;
  results = run();
  EXPECT_TRUE(results[1].finished && results[2].finished);
}

TEST_F(SchedulerTest, CoresAreSharedBetweenJobs) {
  const auto slots = slot_environments(3);
  EXPECT_EQ(slots.size(), 3u);
}

}  // namespace
}  // namespace nsvq
