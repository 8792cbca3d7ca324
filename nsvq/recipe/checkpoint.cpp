#include "nsvq/recipe/checkpoint.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "nsvq/core/error.h"
#include "nsvq/metrics/metric.h"
#include "nsvq/quantizers/quantizer.h"
#include "nsvq/recipe/limits.h"

namespace nsvq {

std::vector<Option> checkpoint_options(CheckpointConfig& checkpoint) {
  return {
      {"checkpoint.every_steps", &checkpoint.every_steps,
       "steps between checkpoints; 0: one after each epoch; always one at the end",
       Range::between(0, kMostSteps), kNotOnResult},
      {"checkpoint.keep", &checkpoint.keep, "latest checkpoints kept",
       Range::between(1, kMostAtOnce), kNotOnResult},
      {"checkpoint.keep_best", &checkpoint.keep_best,
       "one of train.metrics: the checkpoint of its best evaluation is kept too; empty: none",
       Range::any_text("a metric's name"), kNotOnResult},
      {"checkpoint.on_error", &checkpoint.on_error,
       "what to do when one cannot be written (disk full)", Range::one_of({"stop", "continue"}),
       kNotOnResult},
  };
}

void check_checkpoint(const CheckpointConfig& checkpoint, const std::vector<std::string>& metrics,
                      const QuantizerConfig& quantizer) {
  const auto& metric = checkpoint.keep_best;
  const auto* kind = find_metric_kind(metric);
  if (kind && kind->input == MetricInput::tokens && !quantizer_kind(quantizer.type).tokens) {
    throw UserError("checkpoint.keep_best is {}, but quantizer {} has no tokens to measure", metric,
                    quantizer.type);
  }
  if (metric.empty() || std::find(metrics.begin(), metrics.end(), metric) != metrics.end()) return;
  throw UserError("checkpoint.keep_best is {}, which is not among train.metrics ({})", metric,
                  fmt::join(metrics, ", "));
}

}  // namespace nsvq
