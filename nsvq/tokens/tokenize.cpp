#include "nsvq/tokens/tokenize.h"

#include <algorithm>
#include <future>
#include <optional>
#include <utility>

#include "nsvq/core/device.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/log.h"
#include "nsvq/core/precision.h"
#include "nsvq/core/progress.h"
#include "nsvq/core/text.h"
#include "nsvq/tokenizer/model_file.h"
#include "nsvq/tokens/token_shard.h"
#include "nsvq/tokens/token_stream.h"

namespace nsvq {

namespace {

Variants variants_for(const TokenizeOptions& options) {
  const auto& transform = options.loader.transform;
  if (options.parts == TokenizedParts::ten_crops) return ten_crops(transform);
  if (options.parts == TokenizedParts::image) return {};
  return with_mirror_image(transform);
}

/// The loader of images that variants are cut from.
LoaderOptions loader_for(const TokenizeOptions& options) {
  auto loader = options.loader;
  if (options.parts == TokenizedParts::ten_crops) loader.transform = enlarged(loader.transform);
  return loader;
}

TokenSettings settings_for(InferenceSession& session, const Source& source,
                           const TokenizeOptions& options, const Variants& variants) {
  const auto& transform = options.loader.transform;
  const int64_t batch = options.loader.batch_size;
  TokenSettings settings;
  settings.model_sha256 = model_sha256(session.tokenizer());
  settings.codes = session.codes();
  settings.image_height = transform.output_height();
  settings.image_width = transform.output_width();
  settings.grid_height = settings.image_height / session.stride();
  settings.grid_width = settings.image_width / session.stride();
  const auto grids = session.grids(settings.image_height, settings.image_width);
  if (grids.size() > 1) settings.scales = grids;
  settings.variants = variants.names();
  settings.images = source.size();
  settings.keys_sha256 = keys_sha256(source);
  settings.batch_size = batch;
  settings.classes = source.classes();
  settings.shard_size = (options.shard_size + batch - 1) / batch * batch;
  return settings;
}

/// Makes shards from the stream's batches. A shard covers a fixed range of the source and starts
/// with a new batch, so that its bytes do not depend on which shards were made before.
class ShardMaker {
 public:
  ShardMaker(Tokenizer& model, std::shared_ptr<const Source> source, const LoaderOptions& options,
             const Variants& variants, const TokenSettings& settings)
      : source_(source),
        stream_(model, std::move(source), options, variants),
        settings_(settings),
        shape_(settings.shape()) {
    shape_.insert(shape_.begin(), 0);
  }

  /// `done` images are in finished shards.
  TokenShard make(int64_t number, int64_t done, Progress& progress) {
    const int64_t first = number * settings_.shard_size;
    const int64_t end = std::min(first + settings_.shard_size, settings_.images);
    if (number != next_number_) {
      waiting_.reset();
      stream_.start(first / settings_.batch_size);
    }
    next_number_ = number + 1;
    TokenShard shard;
    std::vector<torch::Tensor> parts = {at::empty(shape_, at::kLong)};
    while (true) {
      throw_if_interrupted();
      // The loader skips a batch with broken images only, so the next batch may belong to the next
      // shard.
      if (!waiting_) waiting_ = stream_.next();
      if (!waiting_ || waiting_->indices.front() >= end) break;
      parts.push_back(waiting_->tokens);
      for (const int64_t index : waiting_->indices) add(shard, index);
      progress.update(done + waiting_->indices.back() + 1 - first);
      waiting_.reset();
    }
    progress.update(done + end - first);  // counts broken images too
    shard.tokens = at::cat(parts);
    return shard;
  }

 private:
  void add(TokenShard& shard, int64_t index) const {
    shard.keys.push_back(source_->key(index));
    shard.classes.push_back(source_->label(index));
  }

  std::shared_ptr<const Source> source_;
  TokenStream stream_;
  const TokenSettings& settings_;
  std::vector<int64_t> shape_;  ///< of the tokens of no image
  std::optional<TokenBatch> waiting_;
  int64_t next_number_ = -1;
};

/// Keys in a shard's range of the source that are missing from the shard (broken images).
std::vector<std::string> missing_keys(const TokenShard& shard, const Source& source, int64_t first,
                                      int64_t end) {
  std::vector<std::string> missing;
  auto key = shard.keys.begin();
  for (int64_t i = first; i < end; ++i) {
    // Both lists are in the source's order, so equal keys of different images are no problem.
    if (key != shard.keys.end() && *key == source.key(i)) {
      ++key;
    } else {
      missing.push_back(source.key(i));
    }
  }
  return missing;
}

}  // namespace

TokenManifest tokenize(InferenceSession& session, std::shared_ptr<const Source> source,
                       const TokenizeOptions& options) {
  const torch::NoGradGuard no_grad;
  session.require_tokens();
  const auto variants = variants_for(options);
  const auto settings = settings_for(session, *source, options, variants);
  TokenFolder folder(options.out, settings, options.source, options.part, options.claim_timeout);

  int64_t done = folder.images_done();
  if (done < settings.images) {
    log("on {}: {} of {} done, shards of {}, batches of {}{}", describe(session.device()), done,
        count_of(settings.images, "image"), settings.shard_size, settings.batch_size,
        options.part.count > 1
            ? fmt::format(", from part {} of {} on", options.part.number, options.part.count)
            : "");
  }
  Progress progress("tokenize", settings.images, "images", 30, done);
  const AutocastCacheGuard cached_casts;
  ShardMaker maker(session.tokenizer(), source, loader_for(options), variants, settings);
  std::future<void> writing;  // writes one shard while the next is made
  while (true) {
    auto task = folder.take();
    if (!task && writing.valid()) {
      writing.get();  // `take` may find a shard afterwards
      continue;
    }
    if (!task && folder.finished()) break;
    if (!task) {
      throw_if_interrupted();
      folder.wait();
      continue;
    }
    const int64_t first = folder.first_image(task->number);
    const int64_t end = folder.first_image(task->number + 1);
    done = std::max(done, folder.images_done());  // by all workers
    auto shard = maker.make(task->number, done, progress);
    done += end - first;
    if (writing.valid()) writing.get();
    writing = std::async(std::launch::async, [&folder, &source, first, end, task = std::move(*task),
                                              shard = std::move(shard)] {
      folder.add(task, shard, missing_keys(shard, *source, first, end));
    });
  }
  progress.update(settings.images);
  progress.finish();
  return folder.finish();
}

}  // namespace nsvq
