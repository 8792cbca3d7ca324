#include "nsvq/train/vq/trainer.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/random.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/metrics/metric.h"
#include "nsvq/recipe/loader_options.h"
#include "nsvq/recipe/settings_summary.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/runs/config.h"
#include "nsvq/runs/folder.h"
#include "nsvq/runs/fork.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/tokenizer/model_file.h"
#include "nsvq/train/run_setup.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

/// Log lines on settings that may change and do not act as one might think.
void note_changes(const TokenizerConfig& here, const TokenizerConfig& there) {
  const auto falls_to_the_end = [](const LrScheduleConfig& schedule) {
    const bool falls = schedule.shape != "constant" && schedule.shape != "same";
    return falls && schedule.steps == 0;
  };
  const bool same_budget = here.train.steps == there.train.steps &&
                           (here.train.steps > 0 || here.train.epochs == there.train.epochs);
  if (!same_budget && (falls_to_the_end(here.optimizer.schedule) ||
                       falls_to_the_end(here.optimizer.discriminator_schedule))) {
    log("the budget changed, so learning rates that fall to its end change too "
        "(optimizer.schedule.steps keeps them)");
  }
  if (with_absolute_paths(here).train.init_from != with_absolute_paths(there).train.init_from) {
    log("train.init_from has no effect on a run that goes on");
  }
}

void require_same_recipe(const TokenizerConfig& config, const Checkpoint& checkpoint,
                         const std::string& from) {
  const auto text = checkpoint.model.metadata.find("nsvq.config");
  if (text == checkpoint.model.metadata.end()) {
    throw UserError("{}: carries no configuration (metadata 'nsvq.config')", from);
  }
  const auto there = parse_config(text->second, from);
  const auto differences = essential_differences(config, there);
  if (differences.empty()) return note_changes(config, there);
  throw UserError(
      "{0}: of another configuration: {1}; --fork NEW goes on with the settings here in a folder "
      "NEW, train.init_from={0} starts a new run with its networks",
      from, fmt::join(differences, ", "));
}

std::vector<std::string> changes_of_fork(const fs::path& run, const TokenizerConfig& config) {
  return changed_settings(with_absolute_paths(load_run_config(run)), with_absolute_paths(config));
}

/// Figures of other images are no measure of those that follow.
void forget_evaluations(Checkpoint& checkpoint) {
  log("from here on evaluations use different images: their best figures and drift begin anew");
  auto& [state, logs, model, training] = checkpoint;
  state.best = {};
  state.evaluation.clear();
  auto task = parse_json(state.task);
  Validation::forget(task);
  state.task = task.dump();
  std::erase_if(training, [](const auto& item) { return item.first.starts_with("drift."); });
}

/// Makes a stored checkpoint one to go on from with these settings. Throws UserError where it does
/// not fit them.
void prepare(Checkpoint& checkpoint, const fs::path& folder, const TokenizerConfig& config,
             const fs::path& fork_of) {
  convert_to_present_format(checkpoint.model, folder / kModelFile);
  if (fork_of.empty()) return require_same_recipe(config, checkpoint, folder.string());
  require_forkable(config, checkpoint, folder.string());
  if (change_evaluations(changes_of_fork(fork_of, config))) forget_evaluations(checkpoint);
}

LoopOptions loop_options(const TokenizerConfig& config, c10::Device device) {
  LoopOptions options{.train = config.train,
                      .checkpoint = config.checkpoint,
                      .seed = config.seed,
                      .precision = precision_on(config, device),
                      .gradients = config.dist.gradients == "bf16" ? at::kBFloat16 : at::kFloat,
                      .settings = summarize_settings(config),
                      .samples = "images",
                      .init_from = "train.init_from"};
  if (auto& best = options.checkpoint.keep_best; !best.empty()) {
    const auto& kind = metric_kind(best);
    best = kind.name;  // evaluations call metrics by their own names
    options.best_is_highest = kind.display.better == Better::higher;
  }
  return options;
}

}  // namespace

std::optional<TensorBatch> ImageBatchSource::next() {
  auto batch = loader_.next();
  if (!batch) return std::nullopt;
  return TensorBatch{std::move(batch->images)};
}

Trainer::Trainer(const TokenizerConfig& config, const fs::path& run, std::shared_ptr<Group> group,
                 Start start, std::optional<FolderLock> lock, const fs::path& fork_of)
    : lock_(lock_for(*group, start, run, std::move(lock))),
      device_(choose_device(config.device, group->local_rank())),
      flags_(
          settings_of_rank(training_torch_settings(config, precision_on(config, device_)), *group)),
      // Before a model is made by the recipe: if it is not the run's, it may ask for any size.
      from_(checkpoint_to_resume(start == Start::fork ? fork_of : run, start, *group,
                                 [&](Checkpoint& checkpoint, const fs::path& folder) {
                                   prepare(checkpoint, folder, config, fork_of);
                                 })),
      batches_(open_training_source(config.data), training_loader_options(config, *group, device_)),
      task_(config, batches_, group, device_),
      loop_(task_, batches_, loop_options(config, device_), group, device_) {
  const auto from = std::exchange(from_, std::nullopt);
  if (start == Start::fork) {
    load_forked(loop_, from, config.train, fork_of);
  } else if (from) {
    loop_.load(*from, run.string());
  } else {
    task_.start_fresh();
  }
  if (!group->leads()) return;
  if (start == Start::fork) {
    lock_.emplace(
        begin_fork(fork_of, run, *from, fork_contents(config), changes_of_fork(fork_of, config)));
    start = Start::resume;
  }
  run_ = open_run_directory(run, start, std::move(lock_), to_yaml(with_absolute_paths(config)),
                            loop_.state(), from ? &*from : nullptr);
  loop_.write_to(*run_);
}

void Trainer::step_for_benchmark(const torch::Tensor& images, int64_t phase) {
  loop_.step_for_benchmark({images}, task_.state_for_benchmark(phase));
}

}  // namespace nsvq
