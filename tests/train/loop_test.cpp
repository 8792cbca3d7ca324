// The loop and the step runner with a task that has nothing to do with tokenizers: regression by a
// two-layer network.

#include "nsvq/train/loop.h"
#include "nsvq/tokenizer/open_model.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/seeds.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/train/run_folder.h"
#include "nsvq/train/weight_average.h"
#include "tests/train/run_traces.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kInputs = 4, kHidden = 8, kBatch = 6, kBatches = 5;

struct TwoLayers : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear(kInputs, kHidden));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(kHidden, 1));

  torch::Tensor forward(const torch::Tensor& x) {
    return second->forward(at::tanh(first->forward(x)));
  }
};

/// Points x and y = |x|^2 with noise of the step's seed: y depends on what varies from step to
/// step.
class Points : public BatchSource {
 public:
  explicit Points(c10::Device device) : device_(device) {}
  int64_t batches_per_epoch() const override { return kBatches; }
  int64_t samples() const override { return kBatch * kBatches; }
  int64_t step_samples() const override { return kBatch; }
  void start(int64_t epoch, int64_t batch, int64_t /*used*/) override {
    epoch_ = epoch;
    batch_ = batch;
  }
  std::optional<TensorBatch> next() override {
    if (batch_ == kBatches) return std::nullopt;
    torch::manual_seed(combine_seeds({7, static_cast<uint64_t>(epoch_ * kBatches + batch_++)}));
    auto x = at::randn({kBatch, kInputs});
    if (epoch_ == bad_epoch && batch_ == 2) x[0][0] = NAN;
    return TensorBatch{x.to(device_), x.square().sum(1, true).to(device_)};
  }

  int64_t bad_epoch = -1;

 private:
  c10::Device device_;
  int64_t epoch_ = 0, batch_ = 0;
};

/// Has a state of its own: a running mean of the targets, and the number of epochs it has seen.
class Regression : public Task {
 public:
  explicit Regression(c10::Device device)
      : device_(device),
        model_(make_network(device)),
        averaged_(make_network(device)),
        average_(model_, averaged_, 0.9),
        optimizer_(named_parameters(*model_), {.lr = 0.01}, &average_),
        mean_(at::zeros({}, at::device(device).dtype(at::kFloat))) {}

  StepPlan plan(const RunState& state) override { return {"fit", state.step < 3 ? 0.5 : 1.0}; }
  void step(const TensorBatch& batch, Step& step) override {
    const auto& inputs = step.inputs();
    const auto loss = at::mse_loss(model_->forward(batch[0]), batch[1] - mean_) * inputs.share;
    step.backward(loss, *model_);
    step.update({{"loss", loss.detach()}, {"step", inputs.step.to(at::kFloat)}},
                {{"network", model_.get()}});
    const torch::NoGradGuard no_grad;
    mean_.lerp_(batch[1].mean(), 0.1);
  }
  std::vector<Adam*> optimizers() override { return {&optimizer_}; }
  std::vector<torch::Tensor> state_outside_optimizers() override { return {mean_}; }
  void start_next_epoch(Loop&) override { ++epochs_; }
  std::map<std::string, double> evaluate(const RunState& state) override {
    if (state.epoch == stop_in_evaluation) raise(SIGTERM);
    throw_if_interrupted();
    const torch::NoGradGuard no_grad;
    torch::manual_seed(99);
    const auto x = at::randn({50, kInputs}).to(device_);
    const auto error =
        at::mse_loss(averaged_->forward(x), x.square().sum(1, true) - mean_).item<double>();
    return {{"error", error}, {"epochs", static_cast<double>(epochs_)}};
  }

  int64_t stop_in_evaluation = -1;  ///< of this epoch

  TensorFile model(const RunState&) override { return {named_tensors(*averaged_), {}}; }
  TensorMap training_state() override {
    TensorMap all = {{"mean", mean_}};
    add_prefixed(all, "model.", named_tensors(*model_));
    add_prefixed(all, "adam.", optimizer_.state());
    return all;
  }
  std::string state() const override { return nlohmann::json{{"epochs", epochs_}}.dump(); }
  void load(const TensorMap& model, const TensorMap& training, const std::string& state,
            const std::string& from) override {
    epochs_ = nlohmann::json::parse(state).at("epochs");
    load_tensors(*averaged_, model, from);
    load_tensors(*model_, with_prefix(training, "model."), from);
    optimizer_.load(with_prefix(training, "adam."), from);
    copy_tensors({{"mean", mean_}}, {{"mean", training.at("mean")}}, from);
  }

 private:
  static std::shared_ptr<TwoLayers> make_network(c10::Device device) {
    torch::manual_seed(1);
    auto network = std::make_shared<TwoLayers>();
    network->to(device);
    return network;
  }

  c10::Device device_;
  std::shared_ptr<TwoLayers> model_, averaged_;
  WeightAverage average_;
  Adam optimizer_;
  torch::Tensor mean_;
  int64_t epochs_ = 0;
};

LoopOptions regression_options() {
  LoopOptions options;
  options.train.epochs = 4;
  options.train.log_every = 1;
  options.checkpoint = {.every_steps = 3, .keep = 100};
  options.settings = "regression: true";
  return options;
}

/// Trains in a folder, or goes on there; `hook` runs after each step.
Outcome train_regression(const fs::path& folder, const LoopOptions& options = regression_options(),
                         const Loop::Hook& hook = {}, c10::Device device = at::kCPU,
                         int64_t bad_epoch = -1) {
  Points points(device);
  points.bad_epoch = bad_epoch;
  Regression task(device);
  Loop loop(task, points, options, make_single_group(), device);
  if (hook) loop.on_step(hook);
  if (!fs::exists(folder)) {
    auto run = RunDirectory::create(folder, options.settings);
    return loop.train(&run);
  }
  auto lock = lock_run(folder);
  const auto checkpoint = load_checkpoint(*newest_checkpoint(folder));
  loop.load(checkpoint, folder.string());
  auto run = RunDirectory::resume(folder, std::move(lock), options.settings, checkpoint.logs);
  return loop.train(&run);
}

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

/// Trains until a signal comes in the evaluation of an epoch.
Outcome stop_in_evaluation(const fs::path& folder, const LoopOptions& options, int64_t epoch) {
  Points points(at::kCPU);
  Regression task(at::kCPU);
  task.stop_in_evaluation = epoch;
  Loop loop(task, points, options, make_single_group(), at::kCPU);
  auto run = RunDirectory::create(folder, options.settings);
  catch_interrupts();
  const auto outcome = loop.train(&run);
  catch_interrupts();  // forgets the signal
  return outcome;
}

TEST(Loop, AnEvaluationThatWasStoppedIsDoneAnew) {
  const TemporaryFolder folder;
  for (const int64_t every_steps : {0, 3}) {
    auto options = regression_options();
    options.checkpoint.every_steps = every_steps;
    const auto whole = folder / fmt::format("whole-{}", every_steps);
    train_regression(whole, options);
    for (const int64_t epoch : {1, 2, 4}) {
      const auto stopped = folder / fmt::format("stopped-{}-{}", every_steps, epoch);
      EXPECT_FALSE(stop_in_evaluation(stopped, options, epoch).finished);
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

/// The error falls and falls; a task calls higher figures better unless it says otherwise, so here
/// the first evaluation is the best.
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
