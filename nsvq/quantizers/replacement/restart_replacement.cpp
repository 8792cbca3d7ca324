#include "nsvq/core/tensor_map.h"
#include "nsvq/ops/code_statistics/code_usage.h"
#include "nsvq/quantizers/replacement/replacement.h"
#include "nsvq/quantizers/replacement/sample_rows.h"

namespace nsvq {

namespace {

/// Jukebox: after each step, a code whose running usage per step (replacement.decay) is below
/// replacement.threshold is overwritten by a latent of rank 0's batch, drawn at random. Its usage
/// starts anew at the threshold.
class RestartReplacement : public Replacement {
 public:
  RestartReplacement(const ReplacementConfig& config, const torch::Tensor& codebook);

  bool acts_after_steps() const override { return true; }
  torch::Tensor after_step(torch::Tensor codebook, const StepOutputs& step) override;
  TensorMap state() override { return {{"usage", usage_}}; }

 private:
  double threshold_, decay_;
  torch::Tensor usage_;  ///< [K]
};

}  // namespace

ReplacementKind restart_replacement_kind() {
  return {.name = "restart",
          .make = [](const ReplacementConfig& config, const torch::Tensor& codebook) {
            return std::make_unique<RestartReplacement>(config, codebook);
          }};
}

RestartReplacement::RestartReplacement(const ReplacementConfig& config,
                                       const torch::Tensor& codebook)
    : threshold_(config.threshold),
      decay_(config.decay),
      usage_(at::full({codebook.size(0)}, config.threshold,
                      at::device(codebook.device()).dtype(at::kFloat))) {}

torch::Tensor RestartReplacement::after_step(torch::Tensor codebook, const StepOutputs& step) {
  const torch::NoGradGuard no_grad;
  const int64_t codes = codebook.size(0);
  auto counts = code_usage(step.indices, codes).to(at::kFloat);
  step.group.sum({counts});
  usage_.mul_(decay_).add_(counts, 1 - decay_);

  const auto unused = usage_.lt(threshold_);
  // One for each code, used or not: to count the unused ones the host would have to wait.
  const auto drawn =
      sample_rows(step.latents, codes, step.seed, step.group).to(codebook.scalar_type());
  codebook.copy_(at::where(unused.unsqueeze(1), drawn, codebook));
  usage_.masked_fill_(unused, threshold_);
  return unused;
}

}  // namespace nsvq
