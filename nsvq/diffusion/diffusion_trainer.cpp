#include "nsvq/diffusion/diffusion_trainer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/diffusion/diffusion_batches.h"
#include "nsvq/runs/config.h"
#include "nsvq/runs/fork.h"
#include "nsvq/tokenizer/tokenizer.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

/// Whether a setting decides which tensors there are and what their numbers mean.
bool decides_weights(const std::string& key) {
  constexpr std::array<std::string_view, 6> of_weights = {
      "diffusion.latents", "diffusion.normalise",  "diffusion.scale",
      "diffusion.classes", "diffusion.prediction", "diffusion.times"};
  return key.starts_with("unet.") || std::ranges::find(of_weights, key) != of_weights.end();
}

/// Throws UserError for a checkpoint that cannot be gone on from with these settings.
void require_settings_of(const DiffusionConfig& config, const Checkpoint& checkpoint,
                         const std::string& from, bool fork) {
  const auto there = diffusion_metadata(checkpoint.model, from).first;
  if (fork) return refuse_changes(changed_settings(there, config), decides_weights, from);
  const auto differences = essential_differences(config, there);
  if (differences.empty()) return;
  throw UserError(
      "{}: of another configuration: {}; --fork NEW goes on with the settings here in a folder NEW",
      from, fmt::join(differences, ", "));
}

/// The tokenizer is the same by its weights, and may have moved.
ForkContents contents_of_fork(const DiffusionConfig& config, const std::string& tokenizer_sha256) {
  const auto absolute = with_absolute_paths(config);
  return {to_yaml(absolute), [](TensorFile&, const fs::path&) {},
          [=](const TensorFile& model, const auto& kept) {
            return diffusion_contents(model.tensors, absolute,
                                      {absolute.tokenizer, tokenizer_sha256}, kept);
          }};
}

std::vector<std::string> changes_of_fork(const fs::path& run, const DiffusionConfig& config) {
  return changed_settings(with_absolute_paths(load_run_config<DiffusionConfig>(run)),
                          with_absolute_paths(config));
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
                                   std::optional<FolderLock> lock, const fs::path& fork_of)
    : lock_(lock_for(*group, start, run, std::move(lock))),
      device_(choose_device(config.device, group->local_rank())),
      flags_(
          settings_of_rank(training_torch_settings(config, precision_on(config, device_)), *group)),
      // Before a model is made by the recipe: if it is not the run's, it may ask for any size.
      from_(checkpoint_to_resume(start == Start::fork ? fork_of : run, start, *group,
                                 [&](Checkpoint& checkpoint, const fs::path& folder) {
                                   require_settings_of(config, checkpoint, folder.string(),
                                                       start == Start::fork);
                                 })),
      latents_(load_tokenizer(config.tokenizer), config.latents, device_),
      batches_(make_diffusion_batches(config, latents_, *group, device_)),
      task_(config, latents_, *batches_, group, device_),
      loop_(task_, *batches_, diffusion_loop_options(config, device_), group, device_) {
  const auto from = std::exchange(from_, std::nullopt);
  if (from && group->leads()) {
    const auto folder = (start == Start::fork ? fork_of : run).string();
    require_tokenizer({config.tokenizer, latents_.sha256()},
                      diffusion_metadata(from->model, folder).second, "diffusion.tokenizer",
                      folder);
  }
  if (start == Start::fork) {
    load_forked(loop_, from, config.train, fork_of);
  } else if (from) {
    loop_.load(*from, run.string());
  }
  if (!group->leads()) return;
  if (start == Start::fork) {
    lock_.emplace(begin_fork(fork_of, run, *from, contents_of_fork(config, latents_.sha256()),
                             changes_of_fork(fork_of, config)));
    start = Start::resume;
  }
  run_ = open_run_directory(run, start, std::move(lock_), to_yaml(with_absolute_paths(config)),
                            loop_.state(), from ? &*from : nullptr);
  loop_.write_to(*run_);
}

}  // namespace nsvq
