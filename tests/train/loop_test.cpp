// The loop and the step runner with a task that has nothing to do with tokenizers.

#include "nsvq/train/loop.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>

#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/runs/layout/layout.h"
#include "tests/reset_signals.h"
#include "tests/train/regression.h"
#include "tests/train/run_traces.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

TEST(Loop, TrainsAnyTask) {
  const TemporaryFolder folder;
  const auto outcome = train_regression(folder / "run");
  EXPECT_TRUE(outcome.finished);
  EXPECT_EQ(outcome.evaluation.at("epochs"), 3) << "the last epoch is evaluated before it counts";
  std::vector<double> errors, shares;
  for (const auto& line : timeless_metrics(folder / "run")) {
    if (line.at("kind") == "eval") errors.push_back(line.at("error"));
    EXPECT_EQ(line.at("phase"), "train");
  }
  ASSERT_EQ(errors.size(), 4u);
  EXPECT_LT(errors.back(), errors.front());
  const auto model =
      read_safetensors(list_checkpoints(folder / "run").back() / "model.safetensors");
  EXPECT_TRUE(model.tensors.contains("first.weight"));
  EXPECT_TRUE(fs::exists(folder / "run" / "report.html"));
}

std::vector<std::string> checkpoint_names(const fs::path& run) {
  std::vector<std::string> names;
  for (const auto& one : list_checkpoints(run)) names.push_back(one.filename());
  return names;
}

/// Trains until a signal comes in the evaluation of an epoch, or while its samples are drawn.
Outcome stop_in_evaluation(const fs::path& folder, const LoopOptions& options, int64_t epoch,
                           bool in_samples = false) {
  Points points(at::kCPU);
  Regression task(at::kCPU);
  (in_samples ? task.stop_in_samples : task.stop_in_evaluation) = epoch;
  Loop loop(task, points, options, make_single_group(), at::kCPU);
  auto run = RunDirectory::create(folder, options.settings);
  loop.write_to(run);
  reset_signals();
  catch_interrupts();
  const auto outcome = loop.train();
  catch_interrupts();  // forgets the signal
  return outcome;
}

TEST(Loop, AnEvaluationThatWasStoppedIsDoneAnew) {
  const TemporaryFolder folder;
  for (const auto& [every_steps, in_samples] :
       {std::pair<int64_t, bool>{0, false}, {3, false}, {0, true}, {3, true}}) {
    auto options = regression_options();
    options.checkpoint.every_steps = every_steps;
    options.train.samples_every = in_samples ? 1 : 0;
    const auto whole = folder / fmt::format("whole-{}-{}", every_steps, in_samples);
    train_regression(whole, options);
    for (const int64_t epoch : {1, 2, 4}) {
      const auto stopped = folder / fmt::format("stopped-{}-{}-{}", every_steps, in_samples, epoch);
      EXPECT_FALSE(stop_in_evaluation(stopped, options, epoch, in_samples).finished);
      const auto state = load_run_state(list_checkpoints(stopped).back());
      EXPECT_EQ(state.step, epoch * kBatches) << "no step after the signal";
      EXPECT_FALSE(state.finished) << "its evaluation is to come";
      EXPECT_TRUE(train_regression(stopped, options).finished);
      expect_same_runs(whole, stopped);
    }
  }
}

TEST(Loop, AFolderThatIsMovedEndsTheRun) {
  const TemporaryFolder folder;
  auto options = regression_options();
  options.checkpoint.on_error = "continue";
  const auto move = [&](const RunState& state) {
    if (state.step == 7) fs::rename(folder / "run", folder / "moved");
  };
  try {
    train_regression(folder / "run", options, move);
    ADD_FAILURE();
  } catch (const RunMoved& error) {
    EXPECT_NE(std::string(error.what()).find("moved"), std::string::npos);
  }
  EXPECT_FALSE(fs::exists(folder / "run"));
  EXPECT_TRUE(train_regression(folder / "moved", options).finished);
  train_regression(folder / "whole", options);
  expect_same_runs(folder / "whole", folder / "moved");
}

TEST(Loop, ACheckpointIsWrittenWhenAskedFor) {
  const TemporaryFolder folder;
  auto options = regression_options();
  options.checkpoint.every_steps = 0;
  reset_signals();
  catch_interrupts();
  testing::internal::CaptureStderr();
  train_regression(folder / "run", options, [](const RunState& state) {
    if (state.step == 6) raise(SIGUSR1);
  });
  const auto log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("step 7: checkpoint written, as SIGUSR1 asked"), std::string::npos) << log;
  EXPECT_EQ(log.find("SIGUSR1"), log.rfind("SIGUSR1")) << "once";
  EXPECT_EQ(checkpoint_names(folder / "run"),
            (std::vector<std::string>{"step-5", "step-7", "step-10", "step-15", "step-20"}));
}

TEST(Loop, TheReportOfAStoppedRunDoesNotReload) {
  const TemporaryFolder folder;
  const auto reloads = [&] {
    return read_text(folder / "run/report.html").find("http-equiv=\"refresh\"") !=
           std::string::npos;
  };
  bool on_the_way = false;
  reset_signals();
  catch_interrupts();
  const auto stop = [&](const RunState& state) {
    if (state.step != 7) return;
    on_the_way = reloads();
    raise(SIGTERM);
  };
  EXPECT_FALSE(train_regression(folder / "run", regression_options(), stop).finished);
  EXPECT_TRUE(on_the_way);
  EXPECT_FALSE(reloads());
  catch_interrupts();
}

/// The error falls in every epoch, and by default the highest figure is the best: the first one.
TEST(Loop, TheBestCheckpointIsKeptBesideTheLast) {
  using Names = std::vector<std::string>;
  const TemporaryFolder folder;
  auto options = regression_options();
  options.checkpoint = {.every_steps = 4, .keep = 2, .keep_best = "error"};
  train_regression(folder / "first", options);
  EXPECT_EQ(checkpoint_names(folder / "first"), (Names{"step-5", "step-16", "step-20"}))
      << "written for its evaluation";
  EXPECT_EQ(read_text(folder / "first/checkpoints/best"), "step-5\n");
  EXPECT_EQ(open_model_file(folder / "first/checkpoints/best").path,
            folder / "first/checkpoints/step-5/model.safetensors");

  options.checkpoint.keep_best = "epochs";  // grows
  train_regression(folder / "last", options);
  EXPECT_EQ(checkpoint_names(folder / "last"), (Names{"step-16", "step-20"}));
  EXPECT_EQ(read_text(folder / "last/checkpoints/best"), "step-20\n");

  // Across a stop, and with a marker that a killed process did not come to write.
  options.checkpoint.keep_best = "error";
  EXPECT_FALSE(stop_in_evaluation(folder / "stopped", options, 3).finished);
  fs::remove(folder / "stopped/checkpoints/best");
  train_regression(folder / "stopped", options);
  EXPECT_EQ(checkpoint_names(folder / "stopped"), checkpoint_names(folder / "first"));
  EXPECT_EQ(read_text(folder / "stopped/checkpoints/best"), "step-5\n");
  expect_same_runs(folder / "first", folder / "stopped");

  options.checkpoint.keep_best = "";
  options.train.epochs = 5;
  train_regression(folder / "first", options);
  EXPECT_FALSE(fs::exists(folder / "first/checkpoints/best")) << "nothing is kept for it";
}

/// The child of a death test runs this file again, so the folder's name comes by the environment.
TEST(LoopDeathTest, AKilledRunResumesToTheSameBits) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const TemporaryFolder own;
  setenv("NSVQ_LOOP_TEST", own.path().c_str(), /*overwrite=*/0);
  const fs::path folder = std::getenv("NSVQ_LOOP_TEST");
  for (const int64_t at : {4, 10, 17}) {
    const auto killed = folder / "killed";
    EXPECT_EXIT(train_regression(killed, regression_options(),
                                 [at](const RunState& state) {
                                   if (state.step == at) raise(SIGKILL);
                                 }),
                testing::KilledBySignal(SIGKILL), "");
  }
  EXPECT_TRUE(train_regression(folder / "killed").finished);
  train_regression(folder / "whole");
  expect_same_runs(folder / "whole", folder / "killed");
  unsetenv("NSVQ_LOOP_TEST");
}

TEST(Loop, SkipsNonFiniteStepsAndRollsTheTasksStateBack) {
  const TemporaryFolder folder;
  auto options = regression_options();
  options.train.on_nonfinite = "skip";
  train_regression(folder / "run", options, {}, at::kCPU, /*bad_epoch=*/1);
  const auto last = list_checkpoints(folder / "run").back();
  EXPECT_EQ(load_run_state(last).skipped, 1);
  for (const auto& [name, tensor] : read_safetensors(last / "training.safetensors").tensors) {
    EXPECT_TRUE(at::isfinite(tensor).all().item<bool>()) << name;
  }
  options.train.on_nonfinite = "stop";
  EXPECT_THROW(train_regression(folder / "stopped", options, {}, at::kCPU, 1), RunError);
}

TEST(Loop, RunsAnyTaskAsACudaGraphOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const TemporaryFolder folder;
  const c10::Device device(at::kCUDA, 0);
  auto options = regression_options();
  Points points(device);
  Regression task(device);
  EXPECT_EQ(Loop(task, points, options, make_single_group(), device).graphs_disabled_reason(), "");
  train_regression(folder / "graphs", options, {}, device, /*bad_epoch=*/-1);
  options.train.graphs = false;
  train_regression(folder / "eager", options, {}, device, -1);
  expect_same_runs(folder / "eager", folder / "graphs");
}

}  // namespace
}  // namespace nsvq
