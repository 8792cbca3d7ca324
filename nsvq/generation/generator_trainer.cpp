#include "nsvq/generation/generator_trainer.h"

#include <fmt/ranges.h>

#include <string>
#include <utility>
#include <vector>

#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/generation/generator_model.h"
#include "nsvq/runs/config.h"
#include "nsvq/runs/fork.h"
#include "nsvq/tokenizer/tokenizer.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

/// Throws UserError for a checkpoint that cannot be gone on from with these settings.
void require_generator_settings(const GenerationConfig& config, const Checkpoint& checkpoint,
                                const std::string& from, bool fork) {
  const auto there = generator_metadata(checkpoint.model, from).config;
  if (fork) return refuse_changes(changed_settings(there, config), decides_generator, from);
  const auto differences = essential_differences(config, there);
  if (differences.empty()) return;
  throw UserError(
      "{}: of another configuration: {}; --fork NEW goes on with the settings here in a folder NEW",
      from, fmt::join(differences, ", "));
}

/// Throws UserError for a checkpoint of other tokens.
void require_tokens_of(const GenerationConfig& config, const GridShape& grid,
                       const TokenizerReference& tokenizer, const Checkpoint& checkpoint,
                       const std::string& from) {
  const auto there = generator_metadata(checkpoint.model, from);
  require_tokenizer({config.tokenizer, tokenizer.sha256}, there.tokenizer, "generator.tokenizer",
                    from);
  const auto shown = [](const GridShape& one) {
    return fmt::format("{}x{} by {} codes", one.height, one.width, one.codes);
  };
  if (shown(grid) == shown(there.grid)) return;
  throw UserError("{}: grids of {}, but {} was trained on {}", training_data_key(config),
                  shown(grid), from, shown(there.grid));
}

std::optional<TokenCodec> codec_of(const GenerationConfig& config, c10::Device device) {
  if (config.tokenizer.empty() && !config.tokens.empty()) return std::nullopt;
  return std::optional<TokenCodec>(
      std::in_place, load_frozen_tokenizer(config.tokenizer, "generator.tokenizer"), device);
}

/// Tokenizer and grid are those of the run, and the tokenizer may have moved.
ForkContents generator_fork(const GenerationConfig& config, const GridShape& grid,
                            const TokenizerReference& tokenizer) {
  const auto absolute = with_absolute_paths(config);
  return {to_yaml(absolute), [](TensorFile&, const fs::path&) {},
          [=](const TensorFile& model, const auto& kept) {
            return generator_contents(
                model.tensors, {absolute, grid, {absolute.tokenizer, tokenizer.sha256}}, kept);
          }};
}

std::vector<std::string> changes_of_generator(const fs::path& run, const GenerationConfig& config) {
  return changed_settings(with_absolute_paths(load_run_config<GenerationConfig>(run)),
                          with_absolute_paths(config));
}

}  // namespace

LoopOptions generator_loop_options(const GenerationConfig& config, c10::Device device) {
  return {.train = config.train,
          .checkpoint = config.checkpoint,
          .seed = config.seed,
          .precision = precision_on(config, device),
          .gradients = config.dist.gradients == "bf16" ? at::kBFloat16 : at::kFloat,
          .settings = summarize_settings(config),
          .samples = "images",
          .best_is_highest = false};
}

GeneratorTrainer::GeneratorTrainer(const GenerationConfig& config, const fs::path& run,
                                   std::shared_ptr<Group> group, Start start,
                                   std::optional<FolderLock> lock, const fs::path& fork_of)
    : lock_(lock_for(*group, start, run, std::move(lock))),
      device_(choose_device(config.device, group->local_rank())),
      flags_(
          settings_of_rank(training_torch_settings(config, precision_on(config, device_)), *group)),
      // Before a model is made by the recipe: if it is not the run's, it may ask for any size.
      from_(checkpoint_to_resume(start == Start::fork ? fork_of : run, start, *group,
                                 [&](Checkpoint& checkpoint, const fs::path& folder) {
                                   require_generator_settings(config, checkpoint, folder.string(),
                                                              start == Start::fork);
                                 })),
      codec_(codec_of(config, device_)),
      data_(open_training_tokens(config, codec(), *group, device_)),
      task_(config, codec(), data_, group, device_),
      loop_(task_, *data_.batches, generator_loop_options(config, device_), group, device_) {
  const auto from = std::exchange(from_, std::nullopt);
  const auto tokenizer = codec_ ? codec_->reference() : TokenizerReference{};
  if (from && group->leads()) {
    require_tokens_of(config, data_.grid, tokenizer, *from,
                      (start == Start::fork ? fork_of : run).string());
  }
  if (start == Start::fork) {
    load_forked(loop_, from, config.train, fork_of);
  } else if (from) {
    loop_.load(*from, run.string());
  }
  if (!group->leads()) return;
  if (start == Start::fork) {
    lock_.emplace(begin_fork(fork_of, run, *from, generator_fork(config, data_.grid, tokenizer),
                             changes_of_generator(fork_of, config)));
    start = Start::resume;
  }
  run_ = open_run_directory(run, start, std::move(lock_), to_yaml(with_absolute_paths(config)),
                            loop_.state(), from ? &*from : nullptr);
  loop_.write_to(*run_);
}

}  // namespace nsvq
