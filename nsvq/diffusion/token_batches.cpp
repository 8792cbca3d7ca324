#include "nsvq/diffusion/token_batches.h"

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/token_check.h"
#include "nsvq/tokenizer/detokenize.h"

namespace nsvq {

namespace fs = std::filesystem;

TokenBatches::TokenBatches(const fs::path& folder, const LatentSpace& latents,
                           const std::vector<int64_t>& grid, int64_t classes,
                           const LoaderOptions& options) {
  TokenManifest manifest;
  try {
    manifest = open_tokens(folder, latents.model().tokenizer, /*force=*/false);
  } catch (const UserError& error) {
    throw UserError("diffusion.tokens: {}", error.what());
  }
  const auto& settings = manifest.settings;
  if (settings.grid_height != grid[0] || settings.grid_width != grid[1]) {
    throw UserError(
        "diffusion.tokens: {} has grids of {}x{}, but images of data.size {} have {}x{}",
        folder.string(), settings.grid_height, settings.grid_width, options.transform.size, grid[0],
        grid[1]);
  }
  std::vector<torch::Tensor> parts = {at::empty({0, grid[0], grid[1]}, at::kInt)};
  for (const auto& record : manifest.shards) {
    auto shard = read_checked_shard(folder, settings, record);
    parts.push_back(shard.tokens.to(at::kInt));
    classes_of_.insert(classes_of_.end(), shard.classes.begin(), shard.classes.end());
    keys_.insert(keys_.end(), shard.keys.begin(), shard.keys.end());
  }
  tokens_ = at::cat(parts).to(options.device);
  check_labels(folder, classes);
  if (classes > 0) labels_ = at::tensor(classes_of_, at::kLong).to(options.device);
  sampler_ = {tokens_.size(0), options.batch_size, /*shuffle=*/true,
              options.seed,    options.rank,       options.world};
}

void TokenBatches::check_labels(const fs::path& folder, int64_t classes) const {
  if (classes == 0) return;
  for (size_t i = 0; i < classes_of_.size(); ++i) {
    if (classes_of_[i] >= 0 && classes_of_[i] < classes) continue;
    throw UserError(
        "diffusion.tokens: {}: image {} {}, but diffusion.classes is {}", folder.string(),
        quote(keys_[i]),
        classes_of_[i] < 0 ? "has no class" : fmt::format("is of class {}", classes_of_[i]),
        classes);
  }
}

void TokenBatches::start(int64_t epoch, int64_t batch, int64_t used) {
  order_ = at::tensor(sampler_.order(epoch), at::kLong).to(tokens_.device());
  next_ = batch;
  used_ = used;
}

std::optional<TensorBatch> TokenBatches::next() {
  const int64_t size = sampler_.batch_size, world = sampler_.world;
  const int64_t first = used_ + next_ * size * world, end = first + size * world;
  if (end > samples()) return std::nullopt;
  ++next_;
  const auto places = order_.slice(0, first + sampler_.rank, end, world);
  TensorBatch batch = {tokens_.index_select(0, places).to(at::kLong), places.contiguous()};
  if (labels_.defined()) batch.push_back(labels_.index_select(0, places));
  return batch;
}

}  // namespace nsvq
