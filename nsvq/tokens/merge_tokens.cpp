#include "nsvq/tokens/merge_tokens.h"

#include <map>
#include <string>
#include <system_error>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/text.h"
#include "nsvq/io/files/atomic_file.h"
#include "nsvq/io/files/sha256.h"
#include "nsvq/tokens/token_check.h"
#include "nsvq/tokens/token_work.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

TokenManifest open_complete(const fs::path& folder) {
  auto manifest = read_token_progress(folder);
  require_sound(folder, manifest);
  return manifest;
}

/// Throws UserError unless the folders differ in their images only.
void require_equal_settings(const TokenManifest& first, const fs::path& first_folder,
                            const TokenManifest& other, const fs::path& other_folder) {
  auto here = other.settings, there = first.settings;
  here.images = there.images;
  here.keys_sha256 = there.keys_sha256;
  auto found = difference(here, there);
  if (!found && here.classes != there.classes) {  // one of the two has none
    found = {.text = fmt::format("names of classes ({} here, {} there)", here.classes.size(),
                                 there.classes.size()),
             .of_classes = true};
  }
  if (!found) return;
  throw UserError("{}: cannot be joined with {}: {}{}", other_folder.string(),
                  first_folder.string(), found->text,
                  found->of_classes ? "; tokenize both with --classes FILE" : "");
}

void link_or_copy(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_hard_link(from, to, error);
  if (error) fs::copy_file(from, to, error);  // another disk, or one without hard links
  if (error) throw RunError("cannot write {}: {}", to.string(), error.message());
}

std::vector<JoinedTokens> parts_of(const TokenManifest& manifest) {
  if (!manifest.joined.empty()) return manifest.joined;
  return {{manifest.source, manifest.settings.images, manifest.settings.keys_sha256}};
}

/// Of all parts, however they were joined before.
void describe_data(TokenManifest& merged) {
  Sha256 hash;
  merged.settings.images = 0;
  merged.source.clear();
  std::map<std::string, std::string> sources;
  for (const auto& part : merged.joined) {
    const auto& names = part.keys_sha256;
    hash.add(std::as_bytes(std::span(names.data(), names.size())));
    merged.settings.images += part.images;
    if (!merged.source.empty()) merged.source += " + ";
    merged.source += part.source;
    const auto [same, is_new] = sources.emplace(names, part.source);
    if (!is_new) {
      log("the images of {} and {} have the same names", quote(same->second), quote(part.source));
    }
  }
  merged.settings.keys_sha256 = hash.hex();
}

void require_new(const fs::path& out) {
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(out, ignored))) return;
  if (fs::is_directory(out, ignored) && fs::is_empty(out, ignored)) return;
  throw UserError("{}: exists and is not an empty folder; choose another for --out", out.string());
}

}  // namespace

TokenManifest merge_tokens(const std::vector<fs::path>& folders, const fs::path& out) {
  require_new(out);
  std::vector<TokenManifest> manifests;
  for (const auto& folder : folders) {
    manifests.push_back(open_complete(folder));
    require_equal_settings(manifests.front(), folders.front(), manifests.back(), folder);
  }
  TokenManifest merged;
  merged.settings = manifests.front().settings;
  merged.complete = true;
  AtomicFolder whole(out);
  for (size_t i = 0; i < folders.size(); ++i) {
    const auto parts = parts_of(manifests[i]);
    merged.joined.insert(merged.joined.end(), parts.begin(), parts.end());
    for (auto& record : manifests[i].shards) {
      const auto name = token_shard_name(std::ssize(merged.shards));
      link_or_copy(folders[i] / record.file, whole.path() / name);
      record.file = name;
      merged.shards.push_back(std::move(record));
    }
  }
  describe_data(merged);
  write_token_manifest(whole.path(), merged);
  require_new(out);  // nothing that has appeared meanwhile is replaced
  whole.commit();
  return merged;
}

}  // namespace nsvq
