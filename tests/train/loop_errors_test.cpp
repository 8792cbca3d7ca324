// What the loop says when it cannot go on: each advice only where it is true.

#include <gtest/gtest.h>

#include <functional>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/train/regression.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

void expect_lacks(const std::string& text, const std::string& part) {
  EXPECT_EQ(text.find(part), std::string::npos) << text;
}

/// Checkpoints from step `from` on cannot be written.
class BadDisk : public Regression {
 public:
  BadDisk(int64_t from, std::function<void()> fail)
      : Regression(at::kCPU), from_(from), fail_(std::move(fail)) {}

  TensorFile model(const RunState& state) override {
    if (state.step >= from_) fail_();
    return Regression::model(state);
  }

 private:
  int64_t from_;
  std::function<void()> fail_;
};

void fill_disk() { throw NoRoom("cannot write x: No space left on device"); }
void break_disk() { throw RunError("cannot write x: Input/output error"); }

/// The error of a run with a checkpoint every 3 steps.
std::string error_of_run(int64_t from, const std::function<void()>& fail,
                         const std::string& on_error) {
  const TemporaryFolder folder;
  auto options = regression_options();
  options.checkpoint.on_error = on_error;
  Points points(at::kCPU);
  BadDisk task(from, fail);
  Loop loop(task, points, options, make_single_group(), at::kCPU);
  auto run = RunDirectory::create(folder / "run", options.settings);
  loop.write_to(run);
  return error_of<RunError>([&] { loop.train(); });
}

TEST(LoopErrors, RoomIsAskedForWhereItIsMissing) {
  expect_contains(error_of_run(4, fill_disk, "stop"),
                  {"No space left", "; earlier checkpoints are intact: make room and resume"});
  expect_contains(error_of_run(4, break_disk, "stop"),
                  {"Input/output", "; earlier checkpoints are intact: resume when"});
  expect_contains(error_of_run(4, fill_disk, "continue"),
                  {"up to step 20", "checkpoint written is of step 3; make room and resume"});
  expect_contains(error_of_run(4, break_disk, "continue"),
                  {"checkpoint written is of step 3; resume when its folder can be written"});
}

TEST(LoopErrors, CheckpointsAreSpokenOfWhereThereAreSome) {
  expect_contains(error_of_run(0, fill_disk, "stop"),
                  {"; no checkpoint exists yet: make room and resume"});
  expect_contains(error_of_run(0, break_disk, "continue"), {"but no checkpoint could be written"});
  const auto error_at = [](int64_t bad_epoch) {
    const TemporaryFolder folder;
    auto options = regression_options();
    options.train.on_nonfinite = "stop";
    return error_of<RunError>(
        [&] { train_regression(folder / "run", options, {}, at::kCPU, bad_epoch); });
  };
  expect_contains(error_at(1), {"the last checkpoint is intact: lower optimizer.lr"});
  expect_contains(error_at(0), {"lower optimizer.lr"});
  expect_lacks(error_at(0), "intact");
}

TEST(LoopErrors, ARunOnOtherDataSaysHowToTrainOn) {
  const TemporaryFolder folder;
  const auto run = folder / "run";
  train_regression(run);
  auto checkpoint = load_checkpoint(*newest_checkpoint(run));
  --checkpoint.state.samples;
  Points points(at::kCPU);
  Regression task(at::kCPU);
  auto options = regression_options();
  options.init_from = "train.init_from";
  Loop loop(task, points, options, make_single_group(), at::kCPU);
  expect_contains(error_of([&] { loop.load(checkpoint, run.string()); }),
                  {run.string() + ":", "samples: 29 then, 30 now",
                   "train.init_from=" + run.string() + " starts a new run"});
}

}  // namespace
}  // namespace nsvq
