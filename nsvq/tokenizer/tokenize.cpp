#include "nsvq/tokenizer/tokenize.h"

#include <algorithm>
#include <future>
#include <map>
#include <optional>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/precision.h"
#include "nsvq/core/progress.h"
#include "nsvq/io/atomic_file.h"
#include "nsvq/io/lock.h"
#include "nsvq/io/token_shard.h"
#include "nsvq/tokenizer/model_file.h"
#include "nsvq/tokenizer/token_stream.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

TokenSettings settings_for(InferenceSession& session, const Source& source,
                           const TokenizeOptions& options) {
  const auto& transform = options.loader.transform;
  const int64_t batch = options.loader.batch_size;
  TokenSettings settings;
  settings.model_sha256 = model_sha256(session.tokenizer());
  settings.codes = session.codes();
  settings.image_height = transform.output_height();
  settings.image_width = transform.output_width();
  settings.grid_height = settings.image_height / session.stride();
  settings.grid_width = settings.image_width / session.stride();
  settings.images = source.size();
  settings.keys_sha256 = keys_sha256(source);
  settings.batch_size = batch;
  settings.classes = source.classes();
  settings.shard_size = (options.shard_size + batch - 1) / batch * batch;
  return settings;
}

void require_unused(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename() == ".lock") continue;
    throw UserError("{}: contains other files and no {}; choose another folder for --out",
                    folder.string(), kTokenManifest);
  }
}

/// The manifest to continue from: the folder's, without damaged shards, or a new one.
TokenManifest begin(const fs::path& folder, const TokenSettings& settings,
                    const std::string& source) {
  if (!fs::exists(folder / kTokenManifest)) {
    require_unused(folder);
    const TokenManifest fresh{settings, source, false, {}};
    write_token_manifest(folder, fresh);
    return fresh;
  }
  auto manifest = read_token_manifest(folder);
  if (const auto other = difference(settings, manifest.settings)) {
    throw UserError(
        "{}: contains tokens made with other settings: {}; choose another folder for --out",
        folder.string(), *other);
  }
  auto& classes = manifest.settings.classes;  // which earlier versions did not write
  if (classes.empty()) classes = settings.classes;
  std::erase_if(manifest.shards, [&](const ShardRecord& record) {
    const auto damage = damage_of_shard(folder, record);
    if (damage) log("{} {}; writing it again", (folder / record.file).string(), *damage);
    return damage.has_value();
  });
  return manifest;
}

/// Makes shards from the stream's batches. A shard covers a fixed range of the source and starts
/// with a new batch, so that its bytes do not depend on which shards were made before.
class ShardMaker {
 public:
  ShardMaker(Tokenizer& model, std::shared_ptr<const Source> source, const LoaderOptions& options,
             const TokenSettings& settings)
      : source_(source), stream_(model, std::move(source), options), settings_(settings) {}

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
    std::vector<torch::Tensor> parts = {
        at::empty({0, settings_.grid_height, settings_.grid_width}, at::kLong)};
    while (true) {
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

/// A folder of shards: those finished and those still to be made.
class TokenFolder {
 public:
  TokenFolder(fs::path path, TokenManifest manifest)
      : path_(std::move(path)), manifest_(std::move(manifest)) {
    for (const auto& record : manifest_.shards) finished_[record.file] = record;
  }

  const TokenManifest& manifest() const { return manifest_; }
  int64_t shards() const {
    const auto& settings = manifest_.settings;
    return (settings.images + settings.shard_size - 1) / settings.shard_size;
  }
  int64_t first_image(int64_t number) const {
    return std::min(number * manifest_.settings.shard_size, manifest_.settings.images);
  }
  bool has(int64_t number) const { return finished_.contains(token_shard_name(number)); }
  std::vector<int64_t> missing() const {
    std::vector<int64_t> numbers;
    for (int64_t i = 0; i < shards(); ++i) {
      if (!has(i)) numbers.push_back(i);
    }
    return numbers;
  }
  int64_t images_done() const {
    int64_t images = 0;
    for (int64_t i = 0; i < shards(); ++i) {
      if (has(i)) images += first_image(i + 1) - first_image(i);
    }
    return images;
  }

  void add(int64_t number, const TokenShard& shard, const Source& source) {
    const auto name = token_shard_name(number);
    write_token_shard(path_ / name, shard, manifest_.settings.codes);
    auto record = describe_shard(path_ / name);
    record.images = std::ssize(shard.keys);
    record.broken = missing_keys(shard, source, first_image(number), first_image(number + 1));
    finished_[name] = std::move(record);
    manifest_.shards.clear();
    for (int64_t i = 0; i < shards(); ++i) {
      if (has(i)) manifest_.shards.push_back(finished_.at(token_shard_name(i)));
    }
    manifest_.complete = std::ssize(manifest_.shards) == shards();
    write_token_manifest(path_, manifest_);
  }

 private:
  fs::path path_;
  TokenManifest manifest_;
  std::map<std::string, ShardRecord> finished_;
};

}  // namespace

TokenManifest tokenize(InferenceSession& session, std::shared_ptr<const Source> source,
                       const TokenizeOptions& options) {
  const torch::NoGradGuard no_grad;
  session.require_tokens();
  const auto settings = settings_for(session, *source, options);
  std::error_code error;
  fs::create_directories(options.out, error);
  if (error) throw UserError("cannot create {}: {}", options.out.string(), error.message());
  const auto lock = FolderLock::try_take(options.out);
  if (!lock) throw UserError("{}: another process is writing tokens there", options.out.string());
  remove_unfinished(options.out, {"tokens-", kTokenManifest});
  TokenFolder folder(options.out, begin(options.out, settings, options.source));

  int64_t done = folder.images_done();
  Progress progress("tokenize", settings.images, "images", 30, done);
  const AutocastCacheGuard cached_casts;
  ShardMaker maker(session.tokenizer(), source, options.loader, settings);
  std::future<void> writing;  // writes one shard while the next is made
  for (const int64_t number : folder.missing()) {
    auto shard = maker.make(number, done, progress);
    done += folder.first_image(number + 1) - folder.first_image(number);
    if (writing.valid()) writing.get();
    writing = std::async(std::launch::async, [&folder, &source, number, shard = std::move(shard)] {
      folder.add(number, shard, *source);
    });
  }
  if (writing.valid()) writing.get();
  progress.finish();
  return folder.manifest();
}

}  // namespace nsvq
