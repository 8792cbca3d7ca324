#include "nsvq/io/token_check.h"

#include <algorithm>
#include <map>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/input_file.h"
#include "nsvq/io/sha256.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

/// Images of the source, broken ones included, that each shard stands for.
std::vector<int64_t> expected_images(const TokenManifest& manifest) {
  auto parts = manifest.joined;
  if (parts.empty()) parts.push_back({manifest.source, manifest.settings.images, {}});
  std::vector<int64_t> images;
  for (const auto& part : parts) {
    for (int64_t left = part.images; left > 0; left -= manifest.settings.shard_size) {
      images.push_back(std::min(left, manifest.settings.shard_size));
    }
  }
  return images;
}

/// Throws UserError where the shard, sound by itself, does not belong at its place in the folder.
void check_place(const TokenShard& shard, const TokenManifest& manifest, const ShardRecord& record,
                 int64_t expected, const fs::path& path) {
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
  if (!fs::exists(path)) return "is missing";
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
    throw UserError(
        "{} {}; `nsvq tokenize` (or `nsvq tokens merge`) with the same arguments writes it again",
        path.string(), *damage);
  }
  auto shard = read_token_shard(path, settings.codes);
  const auto& tokens = shard.tokens;
  if (tokens.size(0) != record.images || tokens.size(1) != settings.grid_height ||
      tokens.size(2) != settings.grid_width) {
    throw UserError("{}: tokens [{}, {}, {}], but the manifest says [{}, {}, {}]", path.string(),
                    tokens.size(0), tokens.size(1), tokens.size(2), record.images,
                    settings.grid_height, settings.grid_width);
  }
  return shard;
}

std::vector<TokenProblem> check_tokens(const fs::path& folder, const TokenManifest& manifest) {
  std::map<std::string, const ShardRecord*> records;
  for (const auto& record : manifest.shards) records[record.file] = &record;
  std::vector<TokenProblem> problems;
  const auto expected = expected_images(manifest);
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto name = token_shard_name(static_cast<int64_t>(i));
    const auto found = records.find(name);
    try {
      if (found == records.end()) {
        throw UserError("{}: has not been written yet", (folder / name).string());
      }
      const auto shard = read_checked_shard(folder, manifest.settings, *found->second);
      check_place(shard, manifest, *found->second, expected[i], folder / name);
      records.erase(found);
    } catch (const UserError& error) {
      problems.push_back({name, error.what()});
      records.erase(name);
    }
  }
  for (const auto& [name, record] : records) {
    problems.push_back({name, fmt::format("{}: the manifest names it, but all images are in other "
                                          "shards",
                                          (folder / name).string())});
  }
  if (manifest.shards.size() != expected.size() && problems.empty()) {
    problems.push_back({kTokenManifest, fmt::format("{}: names a shard twice",
                                                    (folder / kTokenManifest).string())});
  }
  if (!manifest.complete && problems.empty()) {
    problems.push_back(
        {kTokenManifest, fmt::format("{}: every shard is there, but it is not marked as complete; "
                                     "run `nsvq tokenize` with the same arguments",
                                     (folder / kTokenManifest).string())});
  }
  return problems;
}

}  // namespace nsvq
