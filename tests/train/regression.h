#pragma once

#include <signal.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "nsvq/core/interrupt.h"
#include "nsvq/core/random.h"
#include "nsvq/runs/folder.h"
#include "nsvq/tokenizer/open_model.h"
#include "nsvq/train/loop.h"
#include "nsvq/train/steps/weight_average.h"

namespace nsvq {

// A task that has nothing to do with tokenizers: regression by a two-layer network.

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
class Regression : public Task, public RunObserver {
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
  std::vector<RunObserver*> observers() override { return {this}; }
  void start_next_epoch(Journal&) override { ++epochs_; }
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

  /// Comes after the evaluation has been logged.
  std::optional<Image> sample_picture() override {
    if (epochs_ + 1 == stop_in_samples) raise(SIGTERM);
    throw_if_interrupted();
    return std::nullopt;
  }

  int64_t stop_in_evaluation = -1, stop_in_samples = -1;  ///< of this epoch

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

inline LoopOptions regression_options() {
  LoopOptions options;
  options.train.epochs = 4;
  options.train.log_every = 1;
  options.checkpoint = {.every_steps = 3, .keep = 100};
  options.settings = "regression: true";
  return options;
}

/// Trains in a folder, or goes on there; `hook` runs after each step.
inline Outcome train_regression(const std::filesystem::path& folder,
                                const LoopOptions& options = regression_options(),
                                const Loop::Hook& hook = {}, c10::Device device = at::kCPU,
                                int64_t bad_epoch = -1) {
  Points points(device);
  points.bad_epoch = bad_epoch;
  Regression task(device);
  Loop loop(task, points, options, make_single_group(), device);
  if (hook) loop.on_step(hook);
  if (!std::filesystem::exists(folder)) {
    auto run = RunDirectory::create(folder, options.settings);
    loop.write_to(run);
    return loop.train();
  }
  auto lock = lock_run(folder);
  const auto checkpoint = load_checkpoint(*newest_checkpoint(folder));
  loop.load(checkpoint, folder.string());
  auto run = RunDirectory::resume(folder, std::move(lock), options.settings, checkpoint.logs,
                                  checkpoint.state.step);
  loop.write_to(run);
  return loop.train();
}

}  // namespace nsvq
