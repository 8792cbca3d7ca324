#include "nsvq/recipe/train.h"

#include "nsvq/metrics/metric.h"
#include "nsvq/recipe/limits.h"

namespace nsvq {

namespace {

/// Names of all metrics, the alternative ones included.
std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  for (const auto& kind : metric_kinds()) {
    names.push_back(kind.name);
    names.insert(names.end(), kind.other_names.begin(), kind.other_names.end());
  }
  return names;
}

}  // namespace

std::vector<Option> train_options(TrainConfig& train) {
  return {
      {"train.epochs", &train.epochs, "passes over the training images",
       Range::between(1, kMostEpochs), kNotOnResult},
      {"train.steps", &train.steps, "steps to train, in place of train.epochs; 0: by epochs",
       Range::between(0, kMostSteps), kNotOnResult},
      {"train.batch_size", &train.batch_size,
       "images of a process (a GPU) in one forward and backward pass",
       Range::between(1, kMostAtOnce)},
      {"train.global_batch", &train.global_batch,
       "images in a step over all processes, in place of train.batch_size; 0: by that",
       Range::between(0, kMostAtOnce)},
      {"train.accumulate", &train.accumulate,
       "passes of train.batch_size images whose gradients make one step",
       Range::between(1, kMostAtOnce)},
      {"train.init_from", &train.init_from,
       "a run or model whose encoder and decoder to start with, and whose model.* hold unless the "
       "recipe has others; quantizer.init is kmeans then, of its latents, unless the recipe has "
       "another",
       Range::any_path(), kNotOnResult},
      {"train.on_nonfinite", &train.on_nonfinite,
       "what to do with a step whose loss or gradient is non-finite",
       Range::one_of({"stop", "skip"}), kNotOnResult},
      {"train.nonfinite_limit", &train.nonfinite_limit,
       "skip: steps skipped in a run before it stops", Range::between(1, kMostSteps), kNotOnResult},
      {"train.deterministic", &train.deterministic,
       "on a GPU: convolutions whose results repeat; false: the fastest, chosen by timing them",
       Range::yes_no(), kNotOnResult},
      {"train.precision", &train.precision,
       "of convolutions and matrix products in the networks; auto: bf16 on a GPU, fp32 on a CPU",
       Range::one_of({"auto", "fp32", "tf32", "bf16", "fp16"}, {{"float32", "fp32"},
                                                                {"32", "fp32"},
                                                                {"bfloat16", "bf16"},
                                                                {"float16", "fp16"},
                                                                {"half", "fp16"},
                                                                {"16", "fp16"}})},
      {"train.graphs", &train.graphs,
       "on a GPU: capture steps as CUDA graphs and replay them; false: run them eagerly",
       Range::yes_no(), kNotOnResult},
      {"train.recompute", &train.recompute,
       "less memory for more time: activations are computed again for the gradients",
       Range::yes_no(), kNotOnResult},
      {"train.metrics", &train.metrics, "what an evaluation measures (docs/evaluation.md)",
       Range::list(1, 32, Range::one_of(metric_names())), kNotOnResult},
      {"train.check", &train.check,
       "steps between comparisons of the fast quantizer path with the plain one; 0: never",
       Range::between(0, kMostSteps), kNotOnResult},
      {"train.check_ranks", &train.check_ranks,
       "steps between comparisons of all weights between processes; 0: only at the start",
       Range::between(0, kMostSteps), kNotOnResult},
      {"train.log_every", &train.log_every, "steps between lines of metrics.jsonl",
       Range::between(1, kMostSteps), kNotOnResult},
      {"train.eval_every", &train.eval_every, "epochs between evaluations; 0: only at the end",
       Range::between(0, kMostEpochs), kNotOnResult},
      {"train.samples_every", &train.samples_every,
       "epochs between grids of reconstructions; 0: never", Range::between(0, kMostEpochs),
       kNotOnResult},
      {"train.samples", &train.samples, "images in such a grid", Range::between(1, kMostAtOnce),
       kNotOnResult},
  };
}

}  // namespace nsvq
