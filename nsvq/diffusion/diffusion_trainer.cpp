#include "nsvq/diffusion/diffusion_trainer.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "nsvq/diffusion/diffusion_batches.h"
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

}  // namespace

DiffusionTrainer::DiffusionTrainer(const DiffusionConfig& config, const fs::path& run,
                                   std::shared_ptr<Group> group, Start start,
                                   std::optional<FolderLock> lock, const fs::path& fork_of)
    : run_(config, group, {run, start, std::move(lock), fork_of},
           {[](const TensorFile& model, const std::string& from) {
              return diffusion_metadata(model, from).first;
            },
            decides_weights}),
      latents_(load_tokenizer(config.tokenizer), config.latents, run_.device()),
      batches_(make_diffusion_batches(config, latents_, *group, run_.device())),
      task_(config, latents_, *batches_, group, run_.device()),
      loop_(task_, *batches_, network_loop_options(config, run_.device()), group, run_.device()) {
  run_.begin(
      loop_,
      [&](const Checkpoint& from, const std::string& folder) {
        require_tokenizer({config.tokenizer, latents_.sha256()},
                          diffusion_metadata(from.model, folder).second, "diffusion.tokenizer",
                          folder);
      },
      [&](const TensorFile& model, const DiffusionConfig& settings, const auto& kept) {
        return diffusion_contents(model.tensors, settings, {settings.tokenizer, latents_.sha256()},
                                  kept);
      });
}

}  // namespace nsvq
