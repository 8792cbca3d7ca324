#include "nsvq/recipe/training_options.h"

#include <string>
#include <utility>

#include "nsvq/metrics/metric.h"

namespace nsvq {

namespace {

constexpr Effect kNotOnResult = Effect::not_on_result;

// More than anyone trains, and little enough for sums and products of them in 64 bits.
constexpr double kMostEpochs = 1e9, kMostSteps = 1e12, kMostAtOnce = 1e6;

/// Of all metrics, in each way that is understood.
std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  for (const auto& kind : metric_kinds()) {
    names.push_back(kind.name);
    names.insert(names.end(), kind.other_names.begin(), kind.other_names.end());
  }
  return names;
}

std::vector<Option> schedule_options(ScheduleConfig& schedule) {
  return {
      {"schedule.phases", &schedule.phases, "phases in order",
       Range::list(1, 3, Range::one_of({"stage1", "warmup", "stage2"}))},
      {"schedule.epoch_steps", &schedule.epoch_steps,
       "steps that count as an epoch in schedule.*; 0: a pass over the training images",
       Range::between(0, kMostEpochs)},
      {"schedule.freeze", &schedule.freeze, "when stage1 ends and the encoder freezes",
       Range::one_of({"plateau", "epoch", "never"})},
      {"schedule.commitment", &schedule.commitment,
       "plateau: commitment loss of the training steps, or of drift.images of data.val",
       Range::one_of({"train", "validation"})},
      {"schedule.smoothing", &schedule.smoothing,
       "plateau: decay of a running mean over the epochs' commitment losses; 0: none",
       Range::from_to_below(0, 1)},
      {"schedule.patience", &schedule.patience, "plateau: epochs without a lower commitment loss",
       Range::between(1, kMostEpochs)},
      {"schedule.freeze_epoch", &schedule.freeze_epoch,
       "freeze: epoch: freeze at the end of this epoch", Range::between(0, kMostEpochs)},
      {"schedule.earliest_epoch", &schedule.earliest_epoch,
       "plateau: freeze at the end of this epoch at the earliest; epochs more than patience before "
       "it do not count",
       Range::between(0, kMostEpochs)},
      {"schedule.latest_epoch", &schedule.latest_epoch,
       "plateau: freeze at the end of this epoch at the latest; 0: no limit",
       Range::between(0, kMostEpochs)},
      {"schedule.warmup_epochs", &schedule.warmup_epochs, "epochs of the warmup phase",
       Range::between(1, kMostEpochs)},
      {"schedule.stage2_epochs", &schedule.stage2_epochs,
       "epochs of stage2; 0: what is left of the budget", Range::between(0, kMostEpochs)},
      {"schedule.ramp_epochs", &schedule.ramp_epochs,
       "first epochs of stage2, over which the adversarial loss rises linearly to its weight",
       Range::between(0, kMostEpochs)},
  };
}

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
       "a run or model whose encoder and decoder to start with; quantizer.init is "
       "kmeans then, of its latents, unless the recipe has another",
       Range::any_text("a path"), kNotOnResult},
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
       Range::one_of({"auto", "fp32", "tf32", "bf16", "fp16"})},
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

std::vector<Option> dist_options(DistConfig& dist) {
  return {
      {"dist.timeout", &dist.timeout,
       "seconds without a sign of life of a process after which the others end", Range::above(0),
       kNotOnResult},
      {"dist.gradients", &dist.gradients, "type in which gradients are summed over processes",
       Range::one_of({"fp32", "bf16"})},
      {"dist.backend", &dist.backend,
       "how processes sum tensors on GPUs; auto: by NCCL where each has a GPU of its own, else by "
       "Gloo through the host's memory",
       Range::one_of({"auto", "nccl", "gloo"}), kNotOnResult},
      {"dist.entropy", &dist.entropy,
       "lfq, ibq: entropy of each process's latents, as the references have it, or of all",
       Range::one_of({"own", "all"})},
      {"dist.batch_norm", &dist.batch_norm,
       "the discriminator's batch norms: by each process's images, as the references have it, or "
       "by all",
       Range::one_of({"own", "all"})},
  };
}

std::vector<Option> drift_options(DriftConfig& drift) {
  return {
      {"drift.every_steps", &drift.every_steps,
       "steps between measurements of encoder drift and assignment churn; 0: one an epoch",
       Range::between(0, kMostSteps), kNotOnResult},
      {"drift.images", &drift.images, "first images of data.val to measure them on; 0: never",
       Range::between(0, kMostAtOnce), kNotOnResult},
  };
}

std::vector<Option> alarm_options(AlarmConfig& alarm) {
  return {
      {"alarm.epochs", &alarm.epochs,
       "epochs that a sign of collapse must last to raise the alarm; 0: no alarm",
       Range::between(0, kMostEpochs), kNotOnResult},
      {"alarm.utilisation", &alarm.utilisation, "share of codes used in an epoch: alarm below it",
       Range::between(0, 1), kNotOnResult},
      {"alarm.norm_growth", &alarm.norm_growth,
       "norm of the latents, as a multiple of the first epoch's: alarm above it", Range::above(1),
       kNotOnResult},
  };
}

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

}  // namespace

std::vector<Option> training_options(Config& config) {
  std::vector<Option> rows;
  for (auto section : {schedule_options(config.schedule), train_options(config.train),
                       dist_options(config.dist), drift_options(config.drift),
                       alarm_options(config.alarm), checkpoint_options(config.checkpoint)}) {
    for (auto& row : section) rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace nsvq
