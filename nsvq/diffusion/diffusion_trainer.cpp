#include "nsvq/diffusion/diffusion_trainer.h"

#include <fmt/ranges.h>

#include <utility>

#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/tokenizer/tokenizer.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

/// A checkpoint with different settings cannot be continued.
void require_settings_of(const DiffusionConfig& config, const Checkpoint& checkpoint,
                         const std::string& from) {
  const auto differences =
      essential_differences(config, diffusion_metadata(checkpoint.model, from).first);
  if (differences.empty()) return;
  throw UserError("{}: of another configuration: {}; choose another folder with --run", from,
                  fmt::join(differences, ", "));
}

/// Nor one with another tokenizer.
void require_tokenizer_of(const DiffusionConfig& config, const std::string& tokenizer_sha256,
                          const Checkpoint& checkpoint, const std::string& from) {
  const auto tokenizer = diffusion_metadata(checkpoint.model, from).second;
  if (tokenizer.sha256 == tokenizer_sha256) return;
  throw UserError(
      "diffusion.tokenizer: {} is not the tokenizer that {} was trained on ({}), by its weights; "
      "choose another folder with --run",
      config.tokenizer, from, tokenizer.path);
}

}  // namespace

LoopOptions diffusion_loop_options(const DiffusionConfig& config, c10::Device device) {
  return {.train = config.train,
          .checkpoint = config.checkpoint,
          .seed = config.seed,
          .precision = precision_on(config, device),
          .gradients = config.dist.gradients == "bf16" ? at::kBFloat16 : at::kFloat,
          .settings = summarize_settings(config),
          .samples = "images",
          .best_is_highest = false};
}

DiffusionTrainer::DiffusionTrainer(const DiffusionConfig& config, const fs::path& run,
                                   std::shared_ptr<Group> group, Start start,
                                   std::optional<FolderLock> lock)
    : lock_(lock_for(*group, start, run, std::move(lock))),
      device_(choose_device(config.device, group->local_rank())),
      flags_(
          settings_of_rank(training_torch_settings(config, precision_on(config, device_)), *group)),
      // Before a model is made by the recipe: if it is not the run's, it may ask for any size.
      from_(checkpoint_to_resume(run, start, *group,
                                 [&](Checkpoint& checkpoint, const fs::path& folder) {
                                   require_settings_of(config, checkpoint, folder.string());
                                 })),
      latents_(load_tokenizer(config.tokenizer), config.latents, device_),
      batches_(make_diffusion_batches(config, latents_, *group, device_)),
      task_(config, latents_, *batches_, group, device_),
      loop_(task_, *batches_, diffusion_loop_options(config, device_), group, device_) {
  const auto from = std::exchange(from_, std::nullopt);
  if (from && group->leads()) {
    require_tokenizer_of(config, latents_.sha256(), *from, run.string());
  }
  if (from) loop_.load(*from, run.string());
  if (!group->leads()) return;
  run_ = open_run_directory(run, start, std::move(lock_), to_yaml(with_absolute_paths(config)),
                            loop_.state(), from ? &*from : nullptr);
  loop_.write_to(*run_);
}

}  // namespace nsvq
