#include "nsvq/diffusion/cache_latents.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/precision.h"
#include "nsvq/core/progress.h"
#include "nsvq/core/text.h"
#include "nsvq/data/sources/source.h"
#include "nsvq/io/files/resumable_folder.h"
#include "nsvq/io/files/sha256.h"
#include "nsvq/tokenizer/model_file.h"

namespace nsvq {

namespace {

/// What the latents depend on.
ResumableFolder::Settings cached_settings(InferenceSession& session, const Source& source,
                                          const CacheLatentsOptions& options, int64_t shard_size) {
  const auto& transform = options.loader.transform;
  ResumableFolder::Settings settings = {
      {"command", "latents"},
      {"model", model_sha256(session.tokenizer())},
      {"images", fmt::to_string(source.size())},
      {"their names", keys_sha256(source)},
      {"image size", fmt::format("{}x{}", transform.output_height(), transform.output_width())},
      {"shard size", fmt::to_string(shard_size)},
      {"batch size", fmt::to_string(options.loader.batch_size)},
      {"precision", name_of(session.tokenizer()->precision)},
      {"device", session.device().is_cpu() ? "cpu" : "cuda"}};
  if (options.named_classes) {
    Sha256 hash;
    for (const auto& name : source.classes()) {
      const auto line = name + '\n';
      hash.add(std::as_bytes(std::span(line)));
    }
    settings["classes"] = hash.hex();
  }
  return settings;
}

/// Makes shards in order from a loader's batches.
class LatentShards {
 public:
  LatentShards(InferenceSession& session, std::shared_ptr<const Source> source,
               const LoaderOptions& options, int64_t first)
      : session_(session), source_(source), loader_(std::move(source), options) {
    loader_.start(0, first / options.batch_size);
  }

  /// Images [first, end) of the source; adds to `left_out` those that could not be decoded.
  LatentShard make(int64_t first, int64_t end, std::vector<int64_t>& left_out) {
    LatentShard shard;
    std::vector<torch::Tensor> parts;
    int64_t next = first;
    while (true) {
      // The loader skips a batch whose images are all broken, so the next may be a later
      // shard's.
      if (!waiting_) waiting_ = loader_.next();
      if (!waiting_ || waiting_->indices.front() >= end) break;
      parts.push_back(encode(*waiting_));
      for (const int64_t index : waiting_->indices) {
        for (; next < index; ++next) left_out.push_back(next);
        ++next;
        shard.keys.push_back(source_->key(index));
        shard.classes.push_back(source_->label(index));
      }
      waiting_.reset();
    }
    for (; next < end; ++next) left_out.push_back(next);
    if (!parts.empty()) shard.latents = at::cat(parts);
    return shard;
  }

 private:
  torch::Tensor encode(const Batch& batch) {
    const auto latents = session_.tokenizer()->to_latents(batch.images);
    const auto broken = at::isfinite(latents).flatten(1).all(1).logical_not().nonzero();
    if (broken.size(0) > 0) {
      throw UserError("--data: the latents of image {} are non-finite by {}",
                      quote(source_->key(batch.indices.at(broken[0][0].item<int64_t>()))),
                      session_.file().string());
    }
    return latents.to(at::kBFloat16).cpu();
  }

  InferenceSession& session_;
  std::shared_ptr<const Source> source_;
  Loader loader_;
  std::optional<Batch> waiting_;
};

/// Throws UserError unless the shards that an earlier run has recorded as done are there. A shard
/// of broken images alone has a file too, without images. Images that the record leaves out are
/// tried again; where one can be read now, the manifest is no longer right.
void require_shards(ResumableFolder& folder, const std::filesystem::path& out, const Source& source,
                    int64_t shard_size) {
  folder.require_done({.positions = source.size(), .step = shard_size, .leaves_out = true},
                      [&](int64_t image) { return latent_shard_name(image / shard_size); });
  if (const auto image = first_readable(source, folder.left_out())) {
    std::error_code ignored;
    std::filesystem::remove(out / kLatentManifest, ignored);  // before shards are written again
    folder.go_back(*image / shard_size * shard_size, source.key(*image));
  }
}

}  // namespace

LatentManifest cache_latents(InferenceSession& session, std::shared_ptr<const Source> source,
                             const CacheLatentsOptions& options) {
  const torch::NoGradGuard no_grad;
  const AutocastCacheGuard cached_casts;
  const int64_t batch = options.loader.batch_size, images = source->size();
  const int64_t shard_size = (options.shard_size + batch - 1) / batch * batch;
  const auto& transform = options.loader.transform;
  ResumableFolder folder(options.out, cached_settings(session, *source, options, shard_size));
  require_shards(folder, options.out, *source, shard_size);
  LatentShards shards(session, source, options.loader, folder.done());
  Progress progress("latents", images, "images", 30, folder.done());
  LatentManifest manifest{
      model_sha256(session.tokenizer()),
      {session.config().model.latent_dim, transform.output_height() / session.stride(),
       transform.output_width() / session.stride()},
      options.source,
      0,
      (images + shard_size - 1) / shard_size,
      {},
      source->classes()};
  for (int64_t first = folder.done(); first < images;) {
    const int64_t end = std::min(first + shard_size, images);
    std::vector<int64_t> left_out;
    auto shard = shards.make(first, end, left_out);
    if (!shard.latents.defined()) {
      const auto& shape = manifest.shape;
      shard.latents = at::empty({0, shape[0], shape[1], shape[2]}, at::kBFloat16);
    }
    write_latent_shard(options.out / latent_shard_name(first / shard_size), shard);
    folder.advance(end, left_out);
    progress.update(end);
    first = end;
  }
  progress.finish();
  for (const int64_t position : folder.left_out()) {
    manifest.broken.push_back(source->key(position));
  }
  manifest.images = images - std::ssize(manifest.broken);
  if (manifest.images == 0) throw UserError("--data: {}: no usable image", options.source);
  const auto text = to_json_text(manifest);
  if (!folder.complete() || !std::filesystem::exists(options.out / kLatentManifest)) {
    folder.write(kLatentManifest, std::as_bytes(std::span(text)));
  }
  folder.finish();
  return manifest;
}

}  // namespace nsvq
