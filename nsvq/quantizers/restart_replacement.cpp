#include "nsvq/quantizers/restart_replacement.h"

#include "nsvq/ops/code_usage.h"
#include "nsvq/quantizers/sample_rows.h"

namespace nsvq {

RestartReplacement::RestartReplacement(const ReplacementConfig& config,
                                       const torch::Tensor& codebook)
    : config_(config),
      usage_(at::full({codebook.size(0)}, config.threshold,
                      at::device(codebook.device()).dtype(at::kFloat))) {}

torch::Tensor RestartReplacement::after_step(torch::Tensor codebook, const StepOutputs& step) {
  const torch::NoGradGuard no_grad;
  const int64_t codes = codebook.size(0);
  auto counts = code_usage(step.indices, codes).to(at::kFloat);
  step.group.sum({counts});
  usage_.mul_(config_.decay).add_(counts, 1 - config_.decay);

  const auto unused = usage_.lt(config_.threshold);
  // One for each code, used or not: to count the unused ones the host would have to wait.
  auto drawn = sample_rows(step.latents, codes, step.seed).to(codebook.scalar_type());
  step.group.broadcast({drawn});
  codebook.copy_(at::where(unused.unsqueeze(1), drawn, codebook));
  usage_.masked_fill_(unused, config_.threshold);
  return unused;
}

}  // namespace nsvq
