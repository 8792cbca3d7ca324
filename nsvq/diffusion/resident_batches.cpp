#include "nsvq/diffusion/resident_batches.h"

#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/diffusion/latent_folder.h"
#include "nsvq/tokens/detokenize.h"
#include "nsvq/tokens/token_check.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

void check_classes(const ResidentBatches::Contents& contents, int64_t classes,
                   const std::string& from) {
  if (classes == 0) return;
  for (size_t i = 0; i < contents.classes.size(); ++i) {
    const int64_t own = contents.classes[i];
    if (own >= 0 && own < classes) continue;
    throw UserError("{}: image {} {}, but diffusion.classes is {}", from, quote(contents.keys[i]),
                    own < 0 ? "has no class" : fmt::format("is of class {}", own), classes);
  }
}

void require_grid(const std::string& from, const std::vector<int64_t>& found,
                  const std::vector<int64_t>& wanted, int64_t size) {
  if (found == wanted) return;
  throw UserError("{} has grids of {}x{}, but images of data.size {} have {}x{}", from, found[0],
                  found[1], size, wanted[0], wanted[1]);
}

/// Adds a shard to what was read so far.
template <typename Shard>
void append(ResidentBatches::Contents& all, std::vector<torch::Tensor>& parts,
            const torch::Tensor& data, const Shard& shard) {
  parts.push_back(data);
  all.classes.insert(all.classes.end(), shard.classes.begin(), shard.classes.end());
  all.keys.insert(all.keys.end(), shard.keys.begin(), shard.keys.end());
}

}  // namespace

ResidentBatches::ResidentBatches(Contents contents, at::ScalarType type, int64_t classes,
                                 const std::string& from, const LoaderOptions& options)
    : type_(type) {
  check_classes(contents, classes, from);
  data_ = contents.data.to(options.device);
  if (classes > 0) labels_ = at::tensor(contents.classes, at::kLong).to(options.device);
  keys_ = std::move(contents.keys);
  class_names_ = std::move(contents.class_names);
  sampler_ = {data_.size(0), options.batch_size, /*shuffle=*/true,
              options.seed,  options.rank,       options.world};
}

void ResidentBatches::start(int64_t epoch, int64_t batch, int64_t used) {
  order_ = at::tensor(sampler_.order(epoch), at::kLong).to(data_.device());
  next_ = batch;
  used_ = used;
}

std::optional<TensorBatch> ResidentBatches::next() {
  const int64_t size = sampler_.batch_size, world = sampler_.world;
  const int64_t first = used_ + next_ * size * world, end = first + size * world;
  if (end > samples()) return std::nullopt;
  ++next_;
  const auto positions = order_.slice(0, first + sampler_.rank, end, world);
  TensorBatch batch = {data_.index_select(0, positions).to(type_), positions.contiguous()};
  if (labels_.defined()) batch.push_back(labels_.index_select(0, positions));
  return batch;
}

ResidentBatches::Contents read_tokens_to_learn(const std::string& folder,
                                               const LatentSpace& latents,
                                               const std::vector<int64_t>& shape, int64_t size) {
  TokenManifest manifest;
  try {
    manifest = open_tokens(folder, latents.model().tokenizer, /*force=*/false);
  } catch (const UserError& error) {
    throw UserError("diffusion.tokens: {}", error.what());
  }
  const auto& settings = manifest.settings;
  require_grid("diffusion.tokens: " + folder, {settings.grid_height, settings.grid_width},
               {shape[1], shape[2]}, size);
  ResidentBatches::Contents all;
  all.class_names = settings.classes;
  std::vector<torch::Tensor> parts = {at::empty({0, shape[1], shape[2]}, at::kInt)};
  for (const auto& record : manifest.shards) {
    const auto shard = read_checked_shard(folder, settings, record);
    append(all, parts, shard.tokens.to(at::kInt), shard);
  }
  all.data = at::cat(parts);
  return all;
}

ResidentBatches::Contents read_latents_to_learn(const std::string& folder,
                                                const LatentSpace& latents,
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
  ResidentBatches::Contents all;
  all.class_names = manifest.classes;
  std::vector<torch::Tensor> parts = {at::empty({0, shape[0], shape[1], shape[2]}, at::kBFloat16)};
  for (int64_t i = 0; i < manifest.shards; ++i) {
    const auto shard = read_latent_shard(fs::path(folder) / latent_shard_name(i), manifest.shape);
    append(all, parts, shard.latents, shard);
  }
  all.data = at::cat(parts);
  if (all.data.size(0) != manifest.images) {
    throw UserError("{}: {} images, but its manifest says {}", from, all.data.size(0),
                    manifest.images);
  }
  return all;
}

}  // namespace nsvq
