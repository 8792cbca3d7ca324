#include "nsvq/tokens/detokenize.h"

#include <algorithm>

#include "nsvq/core/error.h"
#include "nsvq/core/progress.h"
#include "nsvq/core/text.h"
#include "nsvq/tokenizer/model_file.h"
#include "nsvq/tokens/token_check.h"
#include "nsvq/tokens/token_work.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

/// Throws UserError for an index outside the codebook, as in tokens of a different model.
void check_codes(const TokenShard& shard, int64_t codes, const fs::path& path, bool other_model) {
  if (shard.tokens.numel() == 0) return;
  const int64_t largest = shard.tokens.max().item<int64_t>();
  if (largest >= codes) {
    throw UserError(
        "{}: contains the index {}, but the model's codes are 0 to {}{}", path.string(), largest,
        codes - 1,
        other_model ? "; the tokens are of another model, which has to decode them" : "");
  }
}

}  // namespace

TokenManifest open_tokens(const fs::path& folder, const Tokenizer& tokenizer, bool force,
                          const std::string& advice) {
  auto manifest = read_token_progress(folder);
  if (!manifest.complete) {
    throw UserError("{}: incomplete ({} so far); finish it with `nsvq tokenize`", folder.string(),
                    count_of(manifest.shards.size(), "shard"));
  }
  const auto own = model_sha256(tokenizer);
  const bool other_model = manifest.settings.model_sha256 != own;
  // All shards are checked before the first image is written, so that a damaged one does not leave
  // half of the images behind.
  require_sound(folder, manifest, [&](const TokenShard& shard, const fs::path& path) {
    check_codes(shard, tokenizer->quantizer->codes(), path, other_model);
  });
  // After the shards: there is no point in advice about tokens that cannot be decoded.
  if (!force && other_model) {
    throw UserError("{}: tokens of another model (sha256 {}..., this one has {}...){}",
                    folder.string(), manifest.settings.model_sha256.substr(0, 12),
                    own.substr(0, 12), advice);
  }
  return manifest;
}

void detokenize(
    InferenceSession& session, const fs::path& folder, const TokenManifest& manifest,
    int64_t batch_size, int64_t done,
    const std::function<void(const torch::Tensor&, const std::vector<std::string>&)>& use) {
  const torch::NoGradGuard no_grad;
  int64_t images = 0, before = 0;  // images in all shards, and before the current one
  for (const auto& record : manifest.shards) images += record.images;
  Progress progress("detokenize", images, "images", 30, done);
  for (const auto& record : manifest.shards) {
    const int64_t count = record.images;
    if (before + count <= done) {
      before += count;
      continue;
    }
    const auto shard = read_checked_shard(folder, manifest.settings, record);
    for (int64_t first = done - before; first < count; first += batch_size) {
      const int64_t end = std::min(first + batch_size, count);
      const auto tokens = shard.tokens.slice(0, first, end);
      const std::vector<std::string> keys(shard.keys.begin() + first, shard.keys.begin() + end);
      use(session.decode(tokens).to(at::kCPU), keys);
      progress.update(done += end - first);
    }
    before += count;
  }
  progress.finish();
}

}  // namespace nsvq
