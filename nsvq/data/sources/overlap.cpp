#include "nsvq/data/sources/overlap.h"

#include <algorithm>
#include <filesystem>
#include <unordered_map>
#include <utility>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/data/sources/dead_leaves.h"
#include "nsvq/data/sources/image_names.h"
#include "nsvq/data/sources/part.h"
#include "nsvq/data/sources/patterns.h"
#include "nsvq/data/streams/pipe_commands.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kBuiltin = "builtin:", kPipe = "pipe:";

/// A folder, archive, image, command or built-in source, with the part of its images that is read.
struct Origin {
  std::string name;
  Part part;
  bool folder = false, image = false;  ///< a folder of images, a single one
  std::string key = {};                ///< the name of a single image, by which it is in a part
  std::string item = {};               ///< of Sources
};

std::vector<fs::path> existing_paths(const std::string& patterns) {
  std::error_code ignored;
  if (fs::exists(patterns, ignored)) return {patterns};
  std::vector<fs::path> paths;
  for (const auto& pattern : split_list(patterns)) {
    for (const auto& path : expand_braces(pattern)) {
      try {
        std::ranges::copy(expand_paths(path), std::back_inserter(paths));
      } catch (const UserError&) {  // does not exist
      }
    }
  }
  return paths;
}

void add_origins(const std::string& item, const Part& part, std::vector<Origin>& origins) {
  if (item.starts_with(kBuiltin)) {
    origins.push_back({std::string(kBuiltin) + drawn_pictures(item.substr(kBuiltin.size())), part});
  } else if (item.starts_with(kPipe)) {
    Sources source = item;
    source.pipes_allowed = true;  // they are not run
    for (const auto& command : commands_of(source)) {
      origins.push_back({std::string(kPipe) + command, part});
    }
  } else {
    std::error_code ignored;
    for (const auto& path : existing_paths(item)) {
      const auto real = fs::canonical(path, ignored);
      const bool folder = fs::is_directory(real, ignored);
      const bool image = !folder && is_image_name(path.filename().string());
      origins.push_back({real.string(), part, folder, image, path.filename().string()});
    }
  }
}

std::vector<Origin> origins_of(const Sources& sources) {
  std::vector<Origin> origins;
  for (const auto& item : sources.items) {
    try {
      const size_t first = origins.size();
      add_origins(NamedPart(item).source, part_of(item), origins);
      for (size_t i = first; i < origins.size(); ++i) origins[i].item = item;
    } catch (const UserError&) {  // opening it says what is wrong
    }
  }
  return origins;
}

/// A path below a folder, relative to it; "" if it is not there.
std::string name_below(const Origin& folder, const std::string& path) {
  const auto name = fs::path(path).lexically_relative(folder.name).string();
  return name.empty() || name == "." || name.starts_with("..") ? "" : name;
}

/// Whether a single image is in the part that is read.
bool is_read(const Origin& image) { return image.part.contains(image.key); }

/// Whether a folder is read that has this image in it.
bool reads_image(const Origin& folder, const Origin& image) {
  if (!image.image || !is_read(image)) return false;
  const auto name = name_below(folder, image.name);
  return !name.empty() && folder.part.contains(name);
}

/// Names in a folder begin elsewhere than those in a folder around it, so their parts have nothing
/// to do with each other.
bool share_images(const Origin& one, const Origin& other) {
  if (one.name == other.name) {
    const bool image = one.image || other.image;
    return image ? is_read(one) && is_read(other) : one.part.overlaps(other.part);
  }
  if (one.folder && other.folder) {
    return !name_below(one, other.name).empty() || !name_below(other, one.name).empty();
  }
  return (one.folder && reads_image(one, other)) || (other.folder && reads_image(other, one));
}

}  // namespace

std::optional<SharedImages> shared_images(const Sources& sources, const Sources& others) {
  const auto theirs = origins_of(others);
  std::unordered_multimap<std::string, const Origin*> by_name;
  for (const auto& origin : theirs) by_name.emplace(origin.name, &origin);
  const auto is_folder = [](const Origin& origin) { return origin.folder; };
  const bool folders = std::ranges::any_of(theirs, is_folder);
  for (const auto& origin : origins_of(sources)) {
    const auto [first, last] = by_name.equal_range(origin.name);
    const auto same = std::find_if(
        first, last, [&](const auto& other) { return share_images(origin, *other.second); });
    if (same != last) return SharedImages{origin.name, same->second->item};
    if (!folders && !origin.folder) continue;  // many shards on both sides
    const auto near = std::ranges::find_if(
        theirs, [&](const Origin& other) { return share_images(origin, other); });
    if (near != theirs.end()) return SharedImages{origin.name, near->item};
  }
  return std::nullopt;
}

}  // namespace nsvq
