// Rows of the settings that no quantizer, loss, policy or network brings, and the table of all.

#include <string>
#include <utility>

#include "nsvq/losses/adversarial.h"
#include "nsvq/losses/loss.h"
#include "nsvq/nn/options.h"
#include "nsvq/quantizers/quantizer.h"
#include "nsvq/quantizers/replacement.h"
#include "nsvq/tokenizer/recipe.h"

namespace nsvq {

namespace {

constexpr Effect kNoEffect = Effect::not_on_result;

std::vector<Option> run_options(Config& config) {
  return {
      {"seed", &config.seed, "seed of everything random in a run", Range::at_least(0)},
      {"device", &config.device, "where to compute; auto: the GPU if there is one",
       Range::one_of({"auto", "cpu", "cuda"}), kNoEffect},
      {"threads", &config.threads, "CPU threads for computing; 0: all cores",
       Range::between(0, 1024), kNoEffect},
  };
}

std::vector<Option> data_options(DataConfig& data) {
  return {
      {"data.train", &data.train, "training images: builtin:..., a folder or tar shards",
       Range::not_empty(), kNoEffect},
      {"data.val", &data.val, "evaluation images: builtin:..., a folder or tar shards",
       Range::not_empty(), kNoEffect},
      {"data.size", &data.size, "side in pixels to which images are scaled and cropped",
       Range::between(8, 4096)},
      {"data.crop", &data.crop, "which square of a training image to take",
       Range::one_of({"random", "center"})},
      {"data.flip", &data.flip, "mirror half of the training images", Range::yes_no()},
      {"data.on_error", &data.on_error, "what to do about an unreadable image",
       Range::one_of({"skip", "stop"}), kNoEffect},
      {"data.threads", &data.threads,
       "threads that read and decode images; 0: two, and for a GPU all cores but two",
       Range::between(0, 256), kNoEffect},
      {"data.prefetch", &data.prefetch, "batches kept ready", Range::between(1, 64), kNoEffect},
  };
}

/// Rows of a learning-rate schedule; `what` is trained by it.
std::vector<Option> lr_schedule_options(const std::string& section, const std::string& what,
                                        LrScheduleConfig& schedule,
                                        const std::vector<std::string>& shapes) {
  return {
      {section + ".shape", &schedule.shape, "learning rate of the " + what + " over its steps",
       Range::one_of(shapes)},
      {section + ".warmup_steps", &schedule.warmup_steps,
       "first steps, over which the rate rises linearly from 0", Range::at_least(0)},
      {section + ".steps", &schedule.steps,
       "linear, cosine: steps, warm-up included, after which the final rate is reached; 0: all of "
       "the run",
       Range::at_least(0)},
      {section + ".final_share", &schedule.final_share,
       "linear, cosine: the final rate as a share of the full one", Range::between(0, 1)},
  };
}

std::vector<Option> optimizer_options(OptimizerConfig& optimizer) {
  const auto scale = [](const std::string& part, double* field) {
    auto range = Range::above(0);
    range.text = "> 0 (the encoder is frozen by schedule.freeze and schedule.phases)";
    return Option{"optimizer.scale." + part, field, "factor on the learning rate of the " + part,
                  range};
  };
  std::vector<Option> rows = {
      {"optimizer.lr", &optimizer.lr, "Adam: learning rate", Range::above(0)},
      {"optimizer.beta1", &optimizer.beta1, "Adam: decay of the first moment",
       Range::from_to_below(0, 1)},
      {"optimizer.beta2", &optimizer.beta2, "Adam: decay of the second moment",
       Range::from_to_below(0, 1)},
      {"optimizer.eps", &optimizer.eps, "Adam: term that keeps the division finite",
       Range::above(0)},
      {"optimizer.weight_decay", &optimizer.weight_decay,
       "AdamW: share of every parameter that a step of rate 1 takes away; 0: Adam",
       Range::at_least(0)},
      {"optimizer.clip_norm", &optimizer.clip_norm,
       "largest L2 norm of all gradients of the generator, and of the discriminator; 0: no limit",
       Range::at_least(0)},
      {"optimizer.ema_decay", &optimizer.ema_decay, "decay of the averaged weights; 0: no average",
       Range::from_to_below(0, 1)},
      scale("encoder", &optimizer.scale.encoder),
      scale("decoder", &optimizer.scale.decoder),
      scale("quantizer", &optimizer.scale.quantizer),
      scale("discriminator", &optimizer.scale.discriminator),
  };
  for (auto& row : lr_schedule_options("optimizer.schedule", "generator", optimizer.schedule,
                                       {"constant", "linear", "cosine"})) {
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<Option> schedule_options(ScheduleConfig& schedule) {
  return {
      {"schedule.phases", &schedule.phases, "phases in order",
       Range::list(1, 3, Range::one_of({"stage1", "warmup", "stage2"}))},
      {"schedule.epoch_steps", &schedule.epoch_steps,
       "steps that count as an epoch in schedule.*; 0: a pass over the training images",
       Range::at_least(0)},
      {"schedule.freeze", &schedule.freeze, "when stage1 ends and the encoder freezes",
       Range::one_of({"plateau", "epoch", "never"})},
      {"schedule.commitment", &schedule.commitment,
       "plateau: commitment loss of the training steps, or of drift.images of data.val",
       Range::one_of({"train", "validation"})},
      {"schedule.smoothing", &schedule.smoothing,
       "plateau: decay of a running mean over the epochs' commitment losses; 0: none",
       Range::from_to_below(0, 1)},
      {"schedule.patience", &schedule.patience, "plateau: epochs without a lower commitment loss",
       Range::at_least(1)},
      {"schedule.freeze_epoch", &schedule.freeze_epoch,
       "freeze: epoch: freeze at the end of this epoch", Range::at_least(0)},
      {"schedule.earliest_epoch", &schedule.earliest_epoch,
       "plateau: freeze at the end of this epoch at the earliest; epochs more than patience before "
       "it do not count",
       Range::at_least(0)},
      {"schedule.latest_epoch", &schedule.latest_epoch,
       "plateau: freeze at the end of this epoch at the latest; 0: no limit", Range::at_least(0)},
      {"schedule.warmup_epochs", &schedule.warmup_epochs, "epochs of the warmup phase",
       Range::at_least(1)},
      {"schedule.stage2_epochs", &schedule.stage2_epochs,
       "epochs of stage2; 0: what is left of the budget", Range::at_least(0)},
      {"schedule.ramp_epochs", &schedule.ramp_epochs,
       "first epochs of stage2, over which the adversarial loss rises linearly to its weight",
       Range::at_least(0)},
  };
}

std::vector<Option> train_options(TrainConfig& train) {
  return {
      {"train.epochs", &train.epochs, "passes over the training images", Range::at_least(1),
       kNoEffect},
      {"train.steps", &train.steps, "steps to train, in place of train.epochs; 0: by epochs",
       Range::at_least(0), kNoEffect},
      {"train.batch_size", &train.batch_size, "images in a step, per process", Range::at_least(1)},
      {"train.init_from", &train.init_from,
       "a run or model whose encoder and decoder to start with; codes start from its latents",
       Range::any_text("a path"), kNoEffect},
      {"train.on_nonfinite", &train.on_nonfinite,
       "what to do with a step whose loss or gradient is non-finite",
       Range::one_of({"stop", "skip"}), kNoEffect},
      {"train.nonfinite_limit", &train.nonfinite_limit,
       "skip: steps skipped in a run before it stops", Range::at_least(1), kNoEffect},
      {"train.deterministic", &train.deterministic,
       "on a GPU: convolutions whose results repeat; false: the fastest, chosen by timing them",
       Range::yes_no(), kNoEffect},
      {"train.precision", &train.precision,
       "of convolutions and matrix products in the networks; auto: bf16 on a GPU, fp32 on a CPU",
       Range::one_of({"auto", "fp32", "tf32", "bf16", "fp16"})},
      {"train.graphs", &train.graphs,
       "on a GPU: capture steps as CUDA graphs and replay them; false: run them eagerly",
       Range::yes_no(), kNoEffect},
      {"train.recompute", &train.recompute,
       "less memory for more time: activations are computed again for the gradients",
       Range::yes_no(), kNoEffect},
      {"train.metrics", &train.metrics,
       "what an evaluation measures: any metrics of docs/evaluation.md",
       Range::list(1, 32, Range::any_text("a metric's name")), kNoEffect},
      {"train.check", &train.check,
       "steps between comparisons of the fast quantizer path with the plain one; 0: never",
       Range::at_least(0), kNoEffect},
      {"train.log_every", &train.log_every, "steps between lines of metrics.jsonl",
       Range::at_least(1), kNoEffect},
      {"train.eval_every", &train.eval_every, "epochs between evaluations; 0: only at the end",
       Range::at_least(0), kNoEffect},
      {"train.samples_every", &train.samples_every,
       "epochs between grids of reconstructions; 0: never", Range::at_least(0), kNoEffect},
      {"train.samples", &train.samples, "images in such a grid", Range::at_least(1), kNoEffect},
  };
}

std::vector<Option> drift_options(DriftConfig& drift) {
  return {
      {"drift.every_steps", &drift.every_steps,
       "steps between measurements of encoder drift and assignment churn; 0: one an epoch",
       Range::at_least(0), kNoEffect},
      {"drift.images", &drift.images, "first images of data.val to measure them on; 0: never",
       Range::at_least(0), kNoEffect},
  };
}

std::vector<Option> alarm_options(AlarmConfig& alarm) {
  return {
      {"alarm.epochs", &alarm.epochs,
       "epochs that a sign of collapse must last to raise the alarm; 0: no alarm",
       Range::at_least(0), kNoEffect},
      {"alarm.utilisation", &alarm.utilisation, "share of codes used in an epoch: alarm below it",
       Range::between(0, 1), kNoEffect},
      {"alarm.norm_growth", &alarm.norm_growth,
       "norm of the latents, as a multiple of the first epoch's: alarm above it", Range::above(1),
       kNoEffect},
  };
}

std::vector<Option> checkpoint_options(CheckpointConfig& checkpoint) {
  return {
      {"checkpoint.every_steps", &checkpoint.every_steps,
       "steps between checkpoints; 0: one after each epoch; always one at the end",
       Range::at_least(0), kNoEffect},
      {"checkpoint.keep", &checkpoint.keep, "latest checkpoints kept", Range::at_least(1),
       kNoEffect},
      {"checkpoint.keep_best", &checkpoint.keep_best,
       "one of train.metrics: the checkpoint of its best evaluation is kept too; empty: none",
       Range::any_text("a metric's name"), kNoEffect},
      {"checkpoint.on_error", &checkpoint.on_error,
       "what to do when one cannot be written (disk full)", Range::one_of({"stop", "continue"}),
       kNoEffect},
  };
}

}  // namespace

OptionTable tokenizer_options(Config& config) {
  OptionTable table;
  for (auto section :
       {run_options(config), data_options(config.data), model_options(config.model),
        quantizer_options(config.quantizer), loss_options(config.loss),
        adversarial_options(config.adversarial), discriminator_options(config.adversarial),
        lr_schedule_options("adversarial.schedule", "discriminator",
                            config.optimizer.discriminator_schedule,
                            {"same", "constant", "linear", "cosine"}),
        optimizer_options(config.optimizer), replacement_options(config.replacement),
        schedule_options(config.schedule), train_options(config.train), drift_options(config.drift),
        alarm_options(config.alarm), checkpoint_options(config.checkpoint)}) {
    for (auto& row : section) table.rows.push_back(std::move(row));
  }
  table.dependent_defaults = [&config] {
    auto defaults = quantizer_kind(config.quantizer.type).defaults;
    if (!config.train.init_from.empty()) defaults.emplace_back("quantizer.init=kmeans");
    return defaults;
  };
  table.check = [&config] { check_settings(config); };
  table.help = "`nsvq config --reference` lists all keys";
  return table;
}

}  // namespace nsvq
