#include "nsvq/recipe/network_training.h"

namespace nsvq {

namespace {

/// Rows of the optimizer that a single network has.
std::vector<Option> network_optimizer_options(OptimizerConfig& optimizer) {
  const auto rows = selected(
      optimizer_options(optimizer),
      {{"optimizer.lr", ""},
       {"optimizer.beta1", ""},
       {"optimizer.beta2", ""},
       {"optimizer.eps", ""},
       {"optimizer.weight_decay", ""},
       {"optimizer.clip_norm", "largest L2 norm of all gradients; 0: no limit"},
       {"optimizer.ema_decay",
        "decay of the averaged weights, less in the first steps: (1 + n) / (10 + n) after n; "
        "0: no average"}});
  const std::vector<Option> decay = {
      {"optimizer.decayed", &optimizer.decayed,
       "what weight_decay takes from: all parameters, or matrices, those of two dimensions or more",
       Range::one_of({"all", "matrices"})},
      {"optimizer.undecayed", &optimizer.undecayed,
       "parts of names: weight_decay takes nothing from parameters with one of them in their names",
       Range::list(0, 16, Range::any_text("a part of a name"))}};
  auto schedule = lr_schedule_options("optimizer.schedule", "network", optimizer.schedule,
                                      {"constant", "linear", "cosine"});
  schedule.push_back({"optimizer.schedule.fall_share", &optimizer.schedule.fall_share,
                      "linear, cosine: share of the steps, the last ones, over which the rate "
                      "falls; 1: all after the warm-up",
                      Range::between(1e-6, 1)});
  return joined({rows, decay, schedule});
}

/// Rows of train.*, dist.* and checkpoint.* that do not depend on a tokenizer's training.
std::vector<Option> network_run_options(RunConfig& config) {
  return selected(joined({train_options(config.train), dist_options(config.dist),
                          checkpoint_options(config.checkpoint)}),
                  {{"train.epochs", ""},
                   {"train.steps", ""},
                   {"train.batch_size", ""},
                   {"train.global_batch", ""},
                   {"train.accumulate", ""},
                   {"train.on_nonfinite", ""},
                   {"train.nonfinite_limit", ""},
                   {"train.deterministic", ""},
                   {"train.precision", ""},
                   {"train.graphs", ""},
                   {"train.check_ranks", ""},
                   {"train.log_every", ""},
                   {"train.eval_every", ""},
                   {"train.samples_every", "epochs between grids of generated images; 0: never"},
                   {"train.samples", ""},
                   {"dist.timeout", ""},
                   {"dist.gradients", ""},
                   {"checkpoint.every_steps", ""},
                   {"checkpoint.keep", ""},
                   {"checkpoint.on_error", ""}});
}

}  // namespace

std::vector<Option> network_training_options(RunConfig& run) {
  return joined({network_optimizer_options(run.optimizer), network_run_options(run)});
}

}  // namespace nsvq
