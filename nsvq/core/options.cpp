#include "nsvq/core/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <string>
#include <utility>

namespace nsvq {

namespace {

Range at_least(double low) {
  Range range;
  range.text = fmt::format(">= {}", low);
  range.low = low;
  return range;
}

Range above(double low) {
  Range range = at_least(low);
  range.text = fmt::format("> {}", low);
  range.above_low = true;
  return range;
}

Range between(double low, double high) {
  Range range = at_least(low);
  range.text = fmt::format("{}..{}", low, high);
  range.high = high;
  return range;
}

Range from_to_below(double low, double high) {
  Range range = between(low, high);
  range.text = fmt::format(">= {}, < {}", low, high);
  range.below_high = true;
  return range;
}

Range one_of(std::vector<std::string> choices) {
  Range range;
  range.text = fmt::format("{}", fmt::join(choices, "|"));
  range.choices = std::move(choices);
  return range;
}

Range not_empty() {
  Range range;
  range.text = "not empty";
  range.fewest = 1;
  return range;
}

Range any(std::string text) {
  Range range;
  range.text = std::move(text);
  return range;
}

constexpr bool harmless = false;  // the last column of a row: not essential

Range yes_no() { return one_of({"true", "false"}); }

Range list(size_t fewest, size_t most, Range each) {
  each.text = fmt::format("{} to {}, each {}", fewest, most, each.text);
  each.fewest = fewest;
  each.most = most;
  return each;
}

}  // namespace

std::vector<Option> options(Config& config) {
  auto& [seed, device, threads, data, model, quantizer, loss, adversarial, optimizer, replacement,
         schedule, train, drift, alarm, checkpoint] = config;
  return {
      {"seed", &seed, "seed of everything random in a run", at_least(0)},
      {"device", &device, "where to compute; auto: the GPU if there is one",
       one_of({"auto", "cpu", "cuda"}), harmless},
      {"threads", &threads, "CPU threads for computing; 0: all cores", between(0, 1024), harmless},

      {"data.train", &data.train, "training images: builtin:..., a folder or tar shards",
       not_empty(), harmless},
      {"data.val", &data.val, "evaluation images, given likewise", not_empty(), harmless},
      {"data.size", &data.size, "side in pixels to which images are scaled and cropped",
       between(8, 4096)},
      {"data.crop", &data.crop, "which square of a training image to take",
       one_of({"random", "center"})},
      {"data.flip", &data.flip, "mirror half of the training images", yes_no()},
      {"data.on_error", &data.on_error, "what to do about an unreadable image",
       one_of({"skip", "stop"}), harmless},
      {"data.threads", &data.threads,
       "threads that read and decode images; 0: two, and for a GPU all cores but two",
       between(0, 256), harmless},
      {"data.prefetch", &data.prefetch, "batches kept ready", between(1, 64), harmless},

      {"model.width", &model.width,
       "channels of the first level (normalised in 32 groups if a multiple of 32, else by fours)",
       between(1, 4096)},
      {"model.multipliers", &model.multipliers,
       "channels of each level as multiples of the width; each level after the first halves the "
       "resolution",
       list(1, 8, between(1, 64))},
      {"model.blocks", &model.blocks, "residual blocks per level", between(1, 16)},
      {"model.latent_dim", &model.latent_dim, "channels of a latent, and so of a code",
       between(1, 4096)},
      {"model.attention", &model.attention, "levels with attention, counted from 0",
       list(0, 8, between(0, 7))},
      {"model.mid_attention", &model.mid_attention, "attention between the two middle blocks",
       yes_no()},

      {"quantizer.type", &quantizer.type, "quantizer, by its name (docs/quantizers.md)",
       not_empty()},
      {"quantizer.codes", &quantizer.codes, "size K of the codebook", between(1, 16777216)},
      {"quantizer.init", &quantizer.init,
       "first values of the codebook; data: latents of the first batches; kmeans: their clusters",
       one_of({"gaussian", "uniform", "data", "kmeans"})},
      {"quantizer.beta", &quantizer.beta, "weight of the commitment loss", at_least(0)},
      {"quantizer.alpha", &quantizer.alpha, "weight of the non-stationary (NS) loss", at_least(0)},
      {"quantizer.tau", &quantizer.tau, "temperature of the NS loss", above(0)},
      {"quantizer.rotation", &quantizer.rotation,
       "gradients to the encoder by rotation and scaling, not straight through", yes_no()},
      {"quantizer.operators", &quantizer.operators,
       "search and NS loss: streaming (exact indices, no N x K matrix), or plain tensor operations",
       one_of({"streaming", "plain"})},
      {"quantizer.ema.decay", &quantizer.ema.decay,
       "ema, jukebox, soundstream: decay of the running means", from_to_below(0, 1)},
      {"quantizer.ema.smoothing", &quantizer.ema.smoothing,
       "count added to each code before the division", at_least(0)},
      {"quantizer.fsq.levels", &quantizer.fsq.levels,
       "fsq: levels of each channel; their product is the number of codes",
       list(1, 24, between(2, 65536))},
      {"quantizer.lfq.bits", &quantizer.lfq.bits, "lfq: bits of a code, one a channel",
       between(1, 24)},
      {"quantizer.lfq.entropy", &quantizer.lfq.entropy, "weight of the entropy terms", at_least(0)},
      {"quantizer.lfq.diversity", &quantizer.lfq.diversity, "share of the batch's entropy in them",
       at_least(0)},
      {"quantizer.lfq.temperature", &quantizer.lfq.temperature, "temperature of their softmax",
       above(0)},
      {"quantizer.features.file", &quantizer.features.file,
       "vqgan_lc: safetensors with the features, [codes, dim]; `nsvq codebook features` makes one",
       any("path"), harmless},
      {"quantizer.features.dim", &quantizer.features.dim, "numbers in a feature",
       between(1, 65536)},
      {"quantizer.bridge.patch", &quantizer.bridge.patch,
       "fvq: codes along the side of a patch; the codebook is a square of patches",
       between(1, 256)},
      {"quantizer.bridge.width", &quantizer.bridge.width, "channels of its blocks",
       between(1, 8192)},
      {"quantizer.bridge.heads", &quantizer.bridge.heads, "heads of their attention",
       between(1, 256)},
      {"quantizer.bridge.blocks", &quantizer.bridge.blocks, "number of blocks", between(1, 64)},
      {"quantizer.affine.variant", &quantizer.affine.variant,
       "affine: shift and scale learned, or from running statistics",
       one_of({"learned", "running"})},
      {"quantizer.affine.rate", &quantizer.affine.rate, "factor on what is learned", above(0)},
      {"quantizer.affine.momentum", &quantizer.affine.momentum,
       "share of a batch in the running statistics", between(0, 1)},
      {"quantizer.sqvae.variance", &quantizer.sqvae.variance,
       "sqvae: variance of the latents about their codes at the start, above 1", above(1)},
      {"quantizer.sqvae.anneal", &quantizer.sqvae.anneal,
       "rate by which the temperature falls, exp(-rate step)", at_least(0)},
      {"quantizer.gumbel.temperature", &quantizer.gumbel.temperature,
       "gumbel: temperature at the start", above(0)},
      {"quantizer.gumbel.last_temperature", &quantizer.gumbel.last_temperature,
       "and at the end of a cosine", above(0)},
      {"quantizer.gumbel.anneal_steps", &quantizer.gumbel.anneal_steps, "steps of that cosine",
       at_least(1)},
      {"quantizer.gumbel.kl", &quantizer.gumbel.kl, "weight of the divergence from equal use",
       at_least(0)},
      {"quantizer.ibq.entropy", &quantizer.ibq.entropy, "ibq: weight of the entropy terms",
       at_least(0)},
      {"quantizer.ibq.entropy_temperature", &quantizer.ibq.entropy_temperature,
       "temperature of their softmax", above(0)},
      {"quantizer.ibq.temperature", &quantizer.ibq.temperature,
       "temperature of the softmax that gradients pass", above(0)},

      {"loss.l1", &loss.l1, "weight of the absolute reconstruction error", at_least(0)},
      {"loss.l2", &loss.l2, "weight of the squared reconstruction error", at_least(0)},
      {"loss.perceptual", &loss.perceptual, "weight of the perceptual distance (LPIPS)",
       at_least(0)},
      {"loss.perceptual_net", &loss.perceptual_net,
       "its network; the weights come by `nsvq weights get lpips-NET`",
       one_of({"vgg", "alex", "squeeze"})},
      {"loss.vq", &loss.vq, "weight of the quantizer's loss", at_least(0)},

      {"adversarial.weight", &adversarial.weight,
       "weight of the adversarial loss; 0: no discriminator", at_least(0)},
      {"adversarial.adaptive", &adversarial.adaptive,
       "scale that weight by the ratio of the gradients at the decoder's last layer", yes_no()},
      {"adversarial.start_step", &adversarial.start_step,
       "steps before the discriminator and its loss set in", at_least(0)},
      {"adversarial.generator_loss", &adversarial.generator_loss,
       "what the generator minimises: softplus(-logit) or -logit",
       one_of({"non_saturating", "hinge"})},
      {"adversarial.discriminator_loss", &adversarial.discriminator_loss,
       "the discriminator's loss", one_of({"hinge", "vanilla"})},
      {"adversarial.lecam", &adversarial.lecam, "weight of the LeCAM regulariser; 0: off",
       at_least(0)},
      {"adversarial.width", &adversarial.width, "channels of the discriminator's first layer",
       between(1, 1024)},
      {"adversarial.layers", &adversarial.layers, "its layers of stride 2", between(1, 8)},

      {"optimizer.lr", &optimizer.lr, "Adam: learning rate", above(0)},
      {"optimizer.beta1", &optimizer.beta1, "Adam: decay of the first moment", from_to_below(0, 1)},
      {"optimizer.beta2", &optimizer.beta2, "Adam: decay of the second moment",
       from_to_below(0, 1)},
      {"optimizer.eps", &optimizer.eps, "Adam: term that keeps the division finite", above(0)},
      {"optimizer.ema_decay", &optimizer.ema_decay, "decay of the averaged weights; 0: no average",
       from_to_below(0, 1)},

      {"replacement.policy", &replacement.policy,
       "unused codes in stage1: copy active ones after an epoch, restart at latents or move to "
       "anchors after a step; auto: as the quantizer's method has it",
       one_of({"auto", "none", "copy", "restart", "anchor"})},
      {"replacement.exempt_epochs", &replacement.exempt_epochs,
       "copy: first epochs, in which no code is replaced", at_least(0)},
      {"replacement.threshold", &replacement.threshold,
       "a code used less often than this is replaced: copy: in an epoch; restart: in a step, as a "
       "running mean",
       at_least(0)},
      {"replacement.sigma", &replacement.sigma, "copy: noise added to the copy of the source code",
       at_least(0)},
      {"replacement.source", &replacement.source,
       "copy: the code to copy, drawn in proportion to usage, or the most used",
       one_of({"usage", "most_used"})},
      {"replacement.decay", &replacement.decay, "restart, anchor: decay of the running usage",
       from_to_below(0, 1)},
      {"replacement.anchor", &replacement.anchor,
       "anchor: latents drawn by closeness, the closest, or any",
       one_of({"sampled", "closest", "random"})},
      {"replacement.reset_moments", &replacement.reset_moments,
       "clear Adam's moments of replaced codes", yes_no()},

      {"schedule.phases", &schedule.phases, "phases in order",
       list(1, 3, one_of({"stage1", "warmup", "stage2"}))},
      {"schedule.freeze", &schedule.freeze, "when stage1 ends and the encoder freezes",
       one_of({"plateau", "epoch", "never"})},
      {"schedule.patience", &schedule.patience, "plateau: epochs without a lower commitment loss",
       at_least(1)},
      {"schedule.freeze_epoch", &schedule.freeze_epoch,
       "freeze: epoch: freeze at the end of this epoch", at_least(0)},
      {"schedule.latest_epoch", &schedule.latest_epoch,
       "plateau: freeze at the end of this epoch at the latest; 0: no limit", at_least(0)},
      {"schedule.warmup_epochs", &schedule.warmup_epochs, "epochs of the warmup phase",
       at_least(1)},
      {"schedule.stage2_epochs", &schedule.stage2_epochs,
       "epochs of stage2; 0: what is left of the budget", at_least(0)},
      {"schedule.ramp_epochs", &schedule.ramp_epochs,
       "first epochs of stage2, over which the adversarial loss rises linearly to its weight",
       at_least(0)},

      {"train.epochs", &train.epochs, "passes over the training images", at_least(1), harmless},
      {"train.steps", &train.steps, "steps to train, in place of train.epochs; 0: by epochs",
       at_least(0), harmless},
      {"train.batch_size", &train.batch_size, "images in a step, per process", at_least(1)},
      {"train.on_nonfinite", &train.on_nonfinite,
       "what to do when a loss or a gradient is not finite", one_of({"stop", "skip"}), harmless},
      {"train.nonfinite_limit", &train.nonfinite_limit,
       "skip: steps skipped in a run before it stops", at_least(1), harmless},
      {"train.deterministic", &train.deterministic,
       "on a GPU: convolutions whose results repeat; false: the fastest, chosen by timing them",
       yes_no(), harmless},
      {"train.precision", &train.precision,
       "of convolutions and matrix products in the networks; auto: bf16 on a GPU, fp32 on a CPU",
       one_of({"auto", "fp32", "tf32", "bf16", "fp16"})},
      {"train.graphs", &train.graphs,
       "on a GPU: give a step to it as a whole (a CUDA graph); false: operation by operation",
       yes_no(), harmless},
      {"train.recompute", &train.recompute,
       "less memory for more time: activations are computed again for the gradients", yes_no(),
       harmless},
      {"train.log_every", &train.log_every, "steps between lines of metrics.jsonl", at_least(1),
       harmless},
      {"train.eval_every", &train.eval_every, "epochs between evaluations; 0: only at the end",
       at_least(0), harmless},
      {"train.metrics", &train.metrics,
       "what an evaluation measures: any metrics of docs/evaluation.md",
       list(1, 32, any("a metric's name")), harmless},
      {"train.samples_every", &train.samples_every,
       "epochs between grids of reconstructions; 0: never", at_least(0), harmless},
      {"train.samples", &train.samples, "images in such a grid", at_least(1), harmless},
      {"train.check", &train.check,
       "steps between comparisons of the fast quantizer path with the plain one; 0: never",
       at_least(0), harmless},

      {"drift.every_steps", &drift.every_steps,
       "steps between measurements of encoder drift and assignment churn; 0: one an epoch",
       at_least(0), harmless},
      {"drift.images", &drift.images, "first images of data.val to measure them on; 0: never",
       at_least(0), harmless},

      {"alarm.epochs", &alarm.epochs,
       "epochs that a sign of collapse must last to raise the alarm; 0: no alarm", at_least(0),
       harmless},
      {"alarm.utilisation", &alarm.utilisation, "share of codes used in an epoch: alarm below it",
       between(0, 1), harmless},
      {"alarm.norm_growth", &alarm.norm_growth,
       "norm of the latents, as a multiple of the first epoch's: alarm above it", above(1),
       harmless},

      {"checkpoint.every_steps", &checkpoint.every_steps,
       "steps between checkpoints; 0: one after each epoch; always one at the end", at_least(0),
       harmless},
      {"checkpoint.keep", &checkpoint.keep, "latest checkpoints kept", at_least(1), harmless},
      {"checkpoint.on_error", &checkpoint.on_error,
       "what to do when one cannot be written (disk full)", one_of({"stop", "continue"}), harmless},
  };
}

}  // namespace nsvq
