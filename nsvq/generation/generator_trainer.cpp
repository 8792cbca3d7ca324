#include "nsvq/generation/generator_trainer.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "nsvq/generation/generator_model.h"
#include "nsvq/tokenizer/tokenizer.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

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

}  // namespace

GeneratorTrainer::GeneratorTrainer(const GenerationConfig& config, const fs::path& run,
                                   std::shared_ptr<Group> group, Start start,
                                   std::optional<FolderLock> lock, const fs::path& fork_of)
    : run_(config, group, {run, start, std::move(lock), fork_of},
           {[](const TensorFile& model, const std::string& from) {
              return generator_metadata(model, from).config;
            },
            decides_generator}),
      codec_(codec_of(config, run_.device())),
      data_(open_training_tokens(config, codec(), *group, run_.device())),
      task_(config, codec(), data_, group, run_.device()),
      loop_(task_, *data_.batches, network_loop_options(config, run_.device()), group,
            run_.device()) {
  const auto tokenizer = codec_ ? codec_->reference() : TokenizerReference{};
  run_.begin(
      loop_,
      [&](const Checkpoint& from, const std::string& folder) {
        require_tokens_of(config, data_.grid, tokenizer, from, folder);
      },
      [&](const TensorFile& model, const GenerationConfig& settings, const auto& kept) {
        return generator_contents(
            model.tensors, {settings, data_.grid, {settings.tokenizer, tokenizer.sha256}}, kept);
      });
}

}  // namespace nsvq
