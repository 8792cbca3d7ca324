#include "nsvq/diffusion/diffusion_batches.h"

#include <utility>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/diffusion/latent_folder.h"
#include "nsvq/recipe/loader_options.h"
#include "nsvq/tokens/detokenize.h"
#include "nsvq/tokens/token_check.h"
#include "nsvq/train/run_setup.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

void require_grid(const std::string& from, const std::vector<int64_t>& found,
                  const std::vector<int64_t>& wanted, int64_t size) {
  if (found == wanted) return;
  throw UserError("{} has grids of {}x{}, but images of data.size {} have {}x{}", from, found[0],
                  found[1], size, wanted[0], wanted[1]);
}

}  // namespace

LabelledTensor read_tokens_to_learn(const std::string& folder, const LatentSpace& latents,
                                    const std::vector<int64_t>& shape, int64_t size) {
  TokenManifest manifest;
  try {
    manifest = open_tokens(folder, latents.model().tokenizer, /*force=*/false);
  } catch (const UserError& error) {
    throw UserError("diffusion.tokens: {}", error.what());
  }
  const auto& settings = manifest.settings;
  if (!settings.variants.empty()) {
    throw UserError(
        "diffusion.tokens: {} has tokens of {} crops of each image, and diffusion trains on one; "
        "make them without --crops and --flip",
        folder, settings.variants.size());
  }
  require_grid("diffusion.tokens: " + folder, {settings.grid_height, settings.grid_width},
               {shape[1], shape[2]}, size);
  auto all = read_all_tokens(folder, manifest);
  return {all.tokens, std::move(all.classes), std::move(all.keys), std::move(all.class_names)};
}

LabelledTensor read_latents_to_learn(const std::string& folder, const LatentSpace& latents,
                                     const std::vector<int64_t>& shape, int64_t size) {
  const auto from = "diffusion.cached: " + folder;
  LatentManifest manifest;
  try {
    manifest = read_latent_manifest(folder);
  } catch (const UserError& error) {
    throw UserError("diffusion.cached: {}", error.what());
  }
  if (manifest.model_sha256 != latents.sha256()) {
    throw UserError(
        "{}: latents of another model than {}, by its weights; make them anew with "
        "`nsvq encode`",
        from, latents.model().file.string());
  }
  require_grid(from, {manifest.shape[1], manifest.shape[2]}, {shape[1], shape[2]}, size);
  LabelledTensor all;
  all.class_names = manifest.classes;
  std::vector<torch::Tensor> parts = {at::empty({0, shape[0], shape[1], shape[2]}, at::kBFloat16)};
  for (int64_t i = 0; i < manifest.shards; ++i) {
    const auto shard = read_latent_shard(fs::path(folder) / latent_shard_name(i), manifest.shape);
    parts.push_back(shard.latents);
    all.classes.insert(all.classes.end(), shard.classes.begin(), shard.classes.end());
    all.keys.insert(all.keys.end(), shard.keys.begin(), shard.keys.end());
  }
  all.data = at::cat(parts);
  if (all.data.size(0) != manifest.images) {
    throw UserError("{}: {} images, but its manifest says {}", from, all.data.size(0),
                    manifest.images);
  }
  return all;
}

std::unique_ptr<LabelledBatches> make_diffusion_batches(const DiffusionConfig& config,
                                                        const LatentSpace& latents,
                                                        const Group& group, c10::Device device) {
  const auto options = training_loader_options(config, group, device);
  if (config.tokens.empty() && config.cached.empty()) {
    return std::make_unique<LabelledImages>(open_training_source(config.data), options,
                                            config.told());
  }
  const auto shape = latents.shape(config.data.size, config.unet.stride());
  if (!config.tokens.empty()) {
    return std::make_unique<ResidentBatches>(
        read_tokens_to_learn(config.tokens, latents, shape, config.data.size), at::kLong,
        config.told(), "diffusion.tokens: " + config.tokens, options);
  }
  return std::make_unique<ResidentBatches>(
      read_latents_to_learn(config.cached, latents, shape, config.data.size), at::kBFloat16,
      config.told(), "diffusion.cached: " + config.cached, options);
}

}  // namespace nsvq
