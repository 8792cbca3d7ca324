#include "nsvq/tokens/token_check.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/text.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/files/input_file.h"
#include "nsvq/io/files/sha256.h"
#include "nsvq/io/formats/mapped_tensor.h"
#include "nsvq/tokens/token_work.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kMostUnwritten = 100;  // shards that are named one by one

/// The shards that a folder should have. Computed rather than listed: a damaged manifest may claim
/// more shards than fit into memory.
class ExpectedShards {
 public:
  explicit ExpectedShards(const TokenManifest& manifest) : size_(manifest.settings.shard_size) {
    for (const auto& part : manifest.joined) add(part.images);
    if (manifest.joined.empty()) add(manifest.settings.images);
  }

  int64_t count() const { return ends_.empty() ? 0 : ends_.back(); }
  /// Number of the source's images, broken ones included, that belong into a shard.
  int64_t images(int64_t number) const {
    const auto part = std::ranges::upper_bound(ends_, number) - ends_.begin();
    const int64_t before = (number - (part == 0 ? 0 : ends_[part - 1])) * size_;
    return std::min(images_[part] - before, size_);
  }

 private:
  void add(int64_t images) {
    images_.push_back(images);
    ends_.push_back(count() + images / size_ + (images % size_ != 0));
  }

  int64_t size_;
  std::vector<int64_t> images_,
      ends_;  // per source: its images, the number of shards up to its end
};

/// The number in a shard's name; nullopt if the folder should have no such shard.
std::optional<int64_t> number_of(const ShardRecord& record, const ExpectedShards& expected) {
  const auto number = token_shard_number(record.file);
  if (!number || record.file != token_shard_name(*number)) return std::nullopt;
  return *number < expected.count() ? number : std::nullopt;
}

/// The problems of a folder, in the order of its shards.
struct Problems {
  explicit Problems(const fs::path& the_folder) : folder(the_folder) {}

  void add(const std::string& name, const std::string& what) {
    found.push_back({name, fmt::format("{}: {}", (folder / name).string(), what)});
  }
  /// Adds the missing shards between the last one and `number`.
  void add_unwritten(int64_t number) {
    for (; next < number && unwritten < kMostUnwritten; ++next, ++unwritten) {
      add(token_shard_name(next), "has not been written yet");
    }
    unwritten += number - next;
    next = number;
  }
  /// Adds problems of the folder as a whole.
  void add_rest(const TokenManifest& manifest, int64_t expected) {
    if (unwritten > kMostUnwritten) {
      add(kTokenManifest,
          fmt::format("{} more shards have not been written yet", unwritten - kMostUnwritten));
    }
    if (std::ssize(manifest.shards) != expected && found.empty()) {
      add(kTokenManifest, "names a shard twice");
    }
    if (!manifest.complete && found.empty()) {
      add(kTokenManifest,
          "every shard is there, but it is not marked as complete; run `nsvq tokenize` with the "
          "same arguments");
    }
  }

  fs::path folder;
  std::vector<TokenProblem> found;
  int64_t next = 0, unwritten = 0;
};

/// Throws UserError if an intact shard does not match the folder: in its number of images, or its
/// classes.
void check_shard_in_folder(const TokenShard& shard, const TokenManifest& manifest,
                           const ShardRecord& record, int64_t expected, const fs::path& path) {
  const int64_t broken = std::ssize(record.broken);
  if (record.images + broken != expected) {
    throw UserError("{}: {} images and {} broken ones, where the source has {}", path.string(),
                    record.images, broken, expected);
  }
  const int64_t names = std::ssize(manifest.settings.classes);
  for (size_t i = 0; i < shard.classes.size(); ++i) {
    if (shard.classes[i] >= -1 && (names == 0 || shard.classes[i] < names)) continue;
    throw UserError("{}: image {} ({}) has the class {}, but there are {} names of classes",
                    path.string(), i, quote(shard.keys[i]), shard.classes[i], names);
  }
}

/// File names of a folder's shards from the number `first` on.
std::set<std::string> shards_from(const fs::path& folder, int64_t first) {
  std::set<std::string> names;
  std::error_code ignored;
  for (const auto& entry : entries_of(folder, ignored)) {
    const auto name = entry.path().filename().string();
    const auto number = token_shard_number(name);
    if (number && *number >= first && name == token_shard_name(*number)) names.insert(name);
  }
  return names;
}

}  // namespace

ShardRecord describe_shard(const fs::path& path) {
  const InputFile file(path);
  std::vector<std::byte> piece(1 << 20);
  Sha256 hash;
  for (uint64_t at = 0; at < file.size(); at += piece.size()) {
    const auto bytes = std::span(piece).first(std::min<uint64_t>(piece.size(), file.size() - at));
    file.read(at, bytes);
    hash.add(bytes);
  }
  ShardRecord record;
  record.file = path.filename().string();
  record.bytes = file.size();
  record.sha256 = hash.hex();
  return record;
}

std::optional<std::string> damage_of_shard(const fs::path& folder, const ShardRecord& record) {
  const auto path = folder / record.file;
  if (!path_exists(path)) return "is missing";
  const auto found = describe_shard(path);
  if (found.bytes != record.bytes) {
    return fmt::format("has {} bytes where {} were written", found.bytes, record.bytes);
  }
  if (found.sha256 != record.sha256) return "does not hold what was written";
  return std::nullopt;
}

TokenShard read_checked_shard(const fs::path& folder, const TokenSettings& settings,
                              const ShardRecord& record) {
  const auto path = folder / record.file;
  if (const auto damage = damage_of_shard(folder, record)) {
    throw UserError("{} {}; `nsvq tokenize` with the same arguments writes it again", path.string(),
                    *damage);
  }
  auto shard = read_token_shard(path, settings.codes);
  auto wanted = settings.shape();
  wanted.insert(wanted.begin(), record.images);
  if (shard.tokens.sizes() != at::IntArrayRef(wanted)) {
    throw UserError("{}: tokens [{}], but the manifest says [{}]", path.string(),
                    fmt::join(shard.tokens.sizes(), ", "), fmt::join(wanted, ", "));
  }
  return shard;
}

AllTokens read_all_tokens(const fs::path& folder, const TokenManifest& manifest, bool mapped) {
  const auto& settings = manifest.settings;
  AllTokens all;
  all.class_names = settings.classes;
  auto none = settings.shape();
  none.insert(none.begin(), 0);
  std::vector<torch::Tensor> parts = {at::empty(none, at::kInt)};
  for (const auto& record : manifest.shards) {
    const auto shard = read_checked_shard(folder, settings, record);
    if (mapped) {
      all.shards.push_back(map_tensor(folder / record.file, "tokens"));
    } else {
      parts.push_back(shard.tokens.to(at::kInt));
    }
    all.classes.insert(all.classes.end(), shard.classes.begin(), shard.classes.end());
    all.keys.insert(all.keys.end(), shard.keys.begin(), shard.keys.end());
  }
  if (all.shards.empty()) all.tokens = at::cat(parts);
  return all;
}

std::optional<std::string> damage_of_record(const TokenManifest& manifest,
                                            const ShardRecord& record) {
  const ExpectedShards expected(manifest);
  const auto number = number_of(record, expected);
  if (!number) return "is not a shard of this folder";
  const int64_t broken = std::ssize(record.broken), images = expected.images(*number);
  if (record.images == images - broken) return std::nullopt;
  return fmt::format("is recorded with {} images and {} broken ones, where the source has {}",
                     record.images, broken, images);
}

std::vector<TokenProblem> check_tokens(const fs::path& folder, const TokenManifest& manifest,
                                       const UseShard& use) {
  std::map<int64_t, const ShardRecord*> records;
  std::vector<const ShardRecord*> others;
  const ExpectedShards expected(manifest);
  for (const auto& record : manifest.shards) {
    if (const auto number = number_of(record, expected)) {
      records[*number] = &record;
    } else {
      others.push_back(&record);
    }
  }
  Problems problems(folder);
  for (const auto& [number, record] : records) {
    problems.add_unwritten(number);
    ++problems.next;
    try {
      const auto shard = read_checked_shard(folder, manifest.settings, *record);
      check_shard_in_folder(shard, manifest, *record, expected.images(number),
                            folder / record->file);
      if (use) use(shard, folder / record->file);
    } catch (const UserError& error) {
      problems.found.push_back({record->file, error.what()});
    }
  }
  problems.add_unwritten(expected.count());
  auto beyond = shards_from(folder, expected.count());
  for (const auto* record : others) {
    beyond.erase(record->file);
    problems.add(record->file, "the manifest names it, but all images are in other shards");
  }
  for (const auto& name : beyond) {
    problems.add(name, fmt::format("not in the manifest, which has {} shards; the manifest was cut "
                                   "short, or the file belongs elsewhere",
                                   manifest.shards.size()));
  }
  problems.add_rest(manifest, expected.count());
  return problems.found;
}

void require_sound(const fs::path& folder, const TokenManifest& manifest, const UseShard& use) {
  const auto problems = check_tokens(folder, manifest, use);
  if (problems.empty()) return;
  const auto more = problems.size() == 1 ? "" : fmt::format(" (and {} more)", problems.size() - 1);
  throw UserError("{}{}", problems.front().what, more);
}

TokenManifest open_complete_tokens(const fs::path& folder, const UseShard& use) {
  auto manifest = read_token_progress(folder);
  if (!manifest.complete) {
    throw UserError("{}: incomplete ({} so far); finish it with `nsvq tokenize`", folder.string(),
                    count_of(manifest.shards.size(), "shard"));
  }
  require_sound(folder, manifest, use);
  return manifest;
}

}  // namespace nsvq
