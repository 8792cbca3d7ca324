// nsvq train RUN --fork NEW, and what --resume says of other settings.

#include <gtest/gtest.h>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/runs/config.h"
#include "nsvq/runs/layout/layout.h"
#include "tests/cli/run.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

class Fork : public testing::Test {
 protected:
  void SetUp() override {
    auto config = tiny_config();
    config.train.epochs = 1;
    config.train.eval_every = 0;
    config.train.samples_every = 0;
    write_text(recipe_, to_yaml(config));
    ASSERT_EQ(run({"train", recipe_, "--run", run_}).code, 0);
  }

  TemporaryFolder folder_;
  std::string recipe_ = folder_ / "tiny.yaml";
  std::string run_ = folder_ / "run", fork_ = folder_ / "a fork";
};

TEST_F(Fork, GoesOnWithOtherSettings) {
  const auto done = run({"train", run_, "--fork", fork_, "optimizer.lr=5e-4", "train.epochs=2"});
  ASSERT_EQ(done.code, 0) << done.error;
  expect_contains(done.error, {"forked " + fork_ + " from " + run_ + "/checkpoints/step-3: ",
                               "optimizer.lr 0.001 -> 0.0005, train.epochs 1 -> 2 (command line)"});
  EXPECT_EQ(load_run_config(fork_).optimizer.lr, 5e-4);
  EXPECT_EQ(list_checkpoints(fork_).back().filename(), "step-6");
  EXPECT_EQ(load_run_config(run_).optimizer.lr, 1e-3);
  EXPECT_EQ(list_checkpoints(run_).back().filename(), "step-3");
  const auto longer = run({"train", fork_, "--resume", "train.epochs=3"});
  EXPECT_EQ(longer.code, 0) << longer.error;
  EXPECT_EQ(list_checkpoints(fork_).back().filename(), "step-9");
}

TEST_F(Fork, RefusalsAreOneLine) {
  const auto fork = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"train", run_, "--fork", fork_});
    return run(more);
  };
  expect_failure(fork({"train.epochs=2", "model.width=16"}), 2, {"model.width 8 -> 16"});
  expect_failure(fork({}), 2, {"has spent its budget", "train.epochs=2 or more"});
  expect_failure(fork({"--resume"}), 2, {"--fork excludes --run, --resume and --new"});
  expect_failure(fork({"--run", folder_ / "x"}), 2, {"--fork excludes --run"});
  expect_failure(run({"train", recipe_, "--fork", fork_}), 2,
                 {"--fork goes on from a run: name its folder in place of", "tiny.yaml"});
  expect_failure(run({"train", run_, "--fork", run_, "train.epochs=2"}), 2, {"lies in the run"});
  EXPECT_FALSE(fs::exists(fork_));
}

TEST_F(Fork, IsNamedWhereSettingsDiffer) {
  const auto refused = run({"train", run_, "--resume", "optimizer.lr=0.25"});
  expect_failure(refused, 2,
                 {"optimizer.lr (0.25 here, 0.001 there)", "`nsvq train " + run_ + " --fork NEW ",
                  "train.init_from=" + run_ + "/checkpoints/step-3 "});
  EXPECT_EQ(refused.error.find("--run"), std::string::npos) << refused.error;
}

}  // namespace
}  // namespace nsvq
