#include "nsvq/data/source.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/data/builtin_source.h"
#include "nsvq/data/folder_source.h"
#include "nsvq/data/image_names.h"
#include "nsvq/data/joined_source.h"
#include "nsvq/data/patterns.h"
#include "nsvq/data/tar_source.h"
#include "nsvq/io/sha256.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view builtin = "builtin:";

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool is_shard(const fs::path& path) { return path.extension() == ".tar"; }

bool is_image(const fs::path& path) { return is_image_name(path.filename().string()); }

std::unique_ptr<Source> open_one(const std::string& spec) {
  if (spec.empty()) throw UserError("no images given: name a folder, tar shards or an image");
  if (spec.starts_with(builtin)) return open_builtin(spec.substr(builtin.size()));
  const std::vector<fs::path> paths = expand_paths(spec);
  const bool single = paths.size() == 1;
  if (single && is_folder(paths[0])) return std::make_unique<FolderSource>(paths[0]);
  const auto folder = std::find_if(paths.begin(), paths.end(), is_folder);
  if (folder != paths.end()) {
    throw UserError("{} is a folder; give one folder alone, or a list of files", folder->string());
  }
  if (std::all_of(paths.begin(), paths.end(), is_shard)) return std::make_unique<TarSource>(paths);
  if (std::all_of(paths.begin(), paths.end(), is_image)) {
    return std::make_unique<FolderSource>(paths);
  }
  const auto odd = std::find_if(paths.begin(), paths.end(), [](const fs::path& path) {
    return !is_shard(path) && !is_image(path);
  });
  if (odd == paths.end()) throw UserError("'{}' mixes tar shards and images", spec);
  throw UserError("{} is neither a folder nor a .jpg, .jpeg, .png or .tar file", odd->string());
}

}  // namespace

std::string keys_sha256(const Source& source) {
  Sha256 hash;
  for (int64_t i = 0; i < source.size(); ++i) {
    const auto key = source.key(i);
    hash.add(std::as_bytes(std::span(key.c_str(), key.size() + 1)));
  }
  return hash.hex();
}

std::unique_ptr<Source> open_source(const Sources& sources) {
  if (sources.items.empty()) return open_one("");
  if (sources.items.size() == 1) return open_one(sources.items[0]);
  std::vector<JoinedSource::Part> parts;
  for (const auto& item : sources.items) {
    const auto folder = fs::path(item).lexically_normal();
    const auto name = folder.has_filename() ? folder.filename() : folder.parent_path().filename();
    parts.push_back({open_one(item), is_folder(item) ? name.string() + "/" : ""});
  }
  return std::make_unique<JoinedSource>(std::move(parts));
}

}  // namespace nsvq
