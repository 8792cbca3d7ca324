#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/data/loader/loader.h"
#include "nsvq/diffusion/diffusion_model.h"
#include "nsvq/diffusion/latent_space.h"
#include "nsvq/dist/group.h"
#include "nsvq/train/labelled_batches.h"
#include "nsvq/train/network_task.h"

namespace nsvq {

/// Trains latent diffusion on the latents of a frozen tokenizer, which encodes images on the way or
/// looks up the codes of tokens.
class DiffusionTask : public NetworkTask {
 public:
  /// `latents` and `batches` outlive the task. Throws UserError for settings that cannot run.
  DiffusionTask(const DiffusionConfig& config, LatentSpace& latents, LabelledBatches& batches,
                std::shared_ptr<Group> group, c10::Device device);

  StepPlan plan(const RunState& state) override;
  void initialise(Journal& journal) override;
  std::vector<std::string> describe(int64_t total_steps) const override;
  std::map<std::string, double> evaluate(const RunState& state) override;
  std::optional<Image> sample_picture() override;
  std::optional<NonfiniteLocation> locate_nonfinite(const SkippedSteps& skipped) override;
  TensorFile model(const RunState& state) override;

 protected:
  TensorBatch prepare(const TensorBatch& batch) override;
  torch::Tensor losses(const TensorBatch& slice, const torch::Tensor& seeds,
                       const Step& step) override;

 private:
  DiffusionTask(const DiffusionConfig& config, LatentSpace& latents, LabelledBatches& batches,
                std::shared_ptr<Group> group, c10::Device device, DiffusionModel model,
                DiffusionModel averaged);
  /// Mean and deviation of the latents of training images, cropped and flipped as in the first
  /// epoch.
  LatentStatistics measure_latents();
  /// Latents of a batch, not normalised yet.
  torch::Tensor latents_of(const TensorBatch& batch);
  /// Classes of a batch; undefined without classes.
  torch::Tensor labels_of(const TensorBatch& batch) const;
  bool searches_codes() const;
  std::string graphs_disabled_reason() const;
  /// What must be finite in a batch: the encoder's output, also where its codes are learned.
  torch::Tensor latents_to_check(const TensorBatch& batch);
  /// The name of the first image with non-finite latents; empty if there is none.
  std::string first_nonfinite_image(const TensorBatch& batch, const torch::Tensor& latents) const;

  DiffusionConfig config_;
  LatentSpace& latents_;
  LabelledBatches& batches_;
  std::shared_ptr<Group> group_;
  c10::Device device_;
  std::vector<int64_t> shape_;  ///< [d, h, w]
  std::shared_ptr<const Source> val_source_;
  Loader val_loader_;
  DiffusionModel model_, averaged_;
  DenoisingLoss loss_;
};

}  // namespace nsvq
