#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/dist/group.h"
#include "nsvq/generation/generator.h"
#include "nsvq/generation/tokens/token_batches.h"
#include "nsvq/generation/tokens/token_codec.h"
#include "nsvq/train/network_task.h"

namespace nsvq {

/// Trains a generator on tokens, which a frozen tokenizer makes of images on the way where no
/// tokens are named.
class GeneratorTask : public NetworkTask {
 public:
  /// `codec`, which may be null for tokens of files, and `data` outlive the task. Throws UserError
  /// for settings that cannot run.
  GeneratorTask(const GenerationConfig& config, TokenCodec* codec, const TrainingTokens& data,
                std::shared_ptr<Group> group, c10::Device device);

  StepPlan plan(const RunState& state) override;
  void before_step(const RunState& state) override;
  std::vector<std::string> describe(int64_t total_steps) const override;
  std::map<std::string, double> evaluate(const RunState& state) override;
  std::string evaluation_note(const std::map<std::string, double>& figures) const override;
  std::optional<Image> sample_picture() override;
  std::optional<NonfiniteLocation> locate_nonfinite(const SkippedSteps& skipped) override;
  TensorFile model(const RunState& state) override;

 protected:
  TensorBatch prepare(const TensorBatch& batch) override;
  torch::Tensor losses(const TensorBatch& part, const torch::Tensor& seeds,
                       const Step& step) override;

 private:
  GeneratorTask(const GenerationConfig& config, TokenCodec* codec, const TrainingTokens& data,
                std::shared_ptr<Group> group, c10::Device device,
                std::shared_ptr<Generator> generator, std::shared_ptr<Generator> averaged);
  /// Tokens [B, h, w], or [B, variants, h, w]; -1 where a latent is not finite.
  torch::Tensor tokens_of(const torch::Tensor& data);
  torch::Tensor loss_of(Generator& generator, const TokenImages& images, bool training) const;
  bool encodes() const { return config_.tokens.empty(); }

  GenerationConfig config_;
  TokenCodec* codec_;
  const TrainingTokens& data_;
  std::shared_ptr<Group> group_;
  c10::Device device_;
  std::unique_ptr<EvaluationBatches> evaluation_;  ///< null: there is nothing to evaluate on
  std::shared_ptr<Generator> generator_, averaged_;
};

}  // namespace nsvq
