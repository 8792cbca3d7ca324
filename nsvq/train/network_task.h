#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/data/loader/loader.h"
#include "nsvq/dist/group.h"
#include "nsvq/recipe/run_config.h"
#include "nsvq/train/labelled_batches.h"
#include "nsvq/train/run_observer.h"
#include "nsvq/train/steps/adam.h"
#include "nsvq/train/steps/weight_average.h"
#include "nsvq/train/task.h"

namespace nsvq {

/// The network of a NetworkTask, twice: as it trains, and the average of its weights.
struct TrainedNetwork {
  std::string name;  ///< of its gradient norm: gradient_norm_NAME
  std::shared_ptr<torch::nn::Module> module, average;
};

/// Trains a single network by a mean over images, such as the loss of a generating network, and
/// averages its weights, which are what a model file holds.
class NetworkTask : public Task, public RunObserver {
 public:
  /// `batches` outlive the task.
  NetworkTask(const RunConfig& config, TrainedNetwork network, const LabelledBatches& batches,
              std::shared_ptr<Group> group);

  StepPlan plan(const RunState& state) override;
  void step(const TensorBatch& batch, Step& step) override;
  std::vector<Adam*> optimizers() override { return {&optimizer_}; }
  std::vector<RunObserver*> observers() override { return {this}; }
  TensorMap training_state() override;
  TensorMap shared_tensors() override;
  void load(const TensorMap& model, const TensorMap& training, const std::string& state,
            const std::string& from) override;

 protected:
  /// The tensors that the loss needs, [B, ...] or undefined; train.accumulate cuts them into
  /// slices.
  virtual TensorBatch prepare(const TensorBatch& batch) = 0;
  /// The loss of each sample of a slice, [B] fp32. `seeds` [B] follow from the step and an image's
  /// position among those of all ranks, so that the number of ranks does not matter.
  virtual torch::Tensor losses(const TensorBatch& slice, const torch::Tensor& seeds,
                               const Step& step) = 0;

 private:
  const RunConfig config_;
  TrainedNetwork network_;
  const LabelledBatches& batches_;
  std::shared_ptr<Group> group_;
  WeightAverage average_;
  Adam optimizer_;
};

/// Images of data.val in order, each on one of the ranks.
LoaderOptions validation_loader_options(const RunConfig& config, const Group& group,
                                        c10::Device device);
/// Seeds [B] of an evaluation, which follow from an image's position in its source alone, so that
/// evaluations compare.
torch::Tensor evaluation_seeds(int64_t seed, const std::vector<int64_t>& positions,
                               c10::Device device);
/// The mean over all ranks as "loss" and the number of images as "images"; empty without images.
/// `next` gives the losses [B] of a batch, nullopt at the end.
std::map<std::string, double> mean_loss(Group& group, c10::Device device,
                                        const std::function<std::optional<torch::Tensor>()>& next);

}  // namespace nsvq
