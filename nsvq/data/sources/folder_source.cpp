#include "nsvq/data/sources/folder_source.h"

#include <algorithm>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/slow_work.h"
#include "nsvq/core/text.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

/// False for a folder visited before: a symbolic link may point to one of its parents.
bool is_new(const fs::path& folder, std::set<fs::path>& seen) {
  std::error_code error;
  const fs::path real = fs::canonical(folder, error);
  return !error && seen.insert(real).second;
}

/// The files below a folder.
struct Listing {
  std::vector<std::string> images;  // paths within the folder
  PassedOver others;
};

/// Adds the files of one folder to the listing and returns its subfolders. Throws UserError naming
/// the folder if it cannot be read.
std::vector<fs::path> list_folder(const fs::path& top, const fs::path& folder, Listing& listing,
                                  SlowWork& slow) {
  std::vector<fs::path> folders;
  std::error_code error;
  auto at = entries_of(folder, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    const fs::path& path = at->path();
    std::error_code unknown;
    slow.tell([&] {
      return fmt::format("listing {}: {} so far", top.string(),
                         count_of(listing.images.size(), "image"));
    });
    if (is_hidden(path)) continue;
    if (at->is_directory(unknown)) {
      folders.push_back(path);
    } else if (is_image_name(path.filename().string())) {
      listing.images.push_back(path.lexically_relative(top).generic_string());
    } else {
      listing.others.add(path.filename().string());
    }
  }
  if (error) throw UserError("cannot list {}: {}", folder.string(), error.message());
  return folders;
}

Listing list_tree(const fs::path& top) {
  Listing listing;
  SlowWork slow;
  std::set<fs::path> seen;
  is_new(top, seen);
  std::vector<fs::path> waiting = {top};
  while (!waiting.empty()) {
    const fs::path folder = std::move(waiting.back());
    waiting.pop_back();
    for (auto& inner : list_folder(top, folder, listing, slow)) {
      if (is_new(inner, seen)) waiting.push_back(std::move(inner));
    }
  }
  std::sort(listing.images.begin(), listing.images.end());
  return listing;
}

bool holds_shards(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : entries_of(folder, error)) {
    if (is_shard_name(entry.path().filename().string())) return true;
  }
  return false;
}

}  // namespace

FolderSource::FolderSource(const fs::path& folder, const ImageLimits& limits)
    : folder_(folder), limits_(limits) {
  auto listing = list_tree(folder);
  keys_ = std::move(listing.images);
  passed_over_ = std::move(listing.others);
  if (keys_.empty()) {
    const auto others = passed_over_.text(), advice = passed_over_.advice();
    throw UserError(
        "no {} file below {}{}{}{}", kImageEndings, folder.string(),
        others.empty() ? "" : fmt::format(" (but {})", others), advice.empty() ? "" : "; " + advice,
        holds_shards(folder) ? "; for its tar shards give " + (folder / "*.tar").string() : "");
  }
  classes_ = folder_classes(keys_);
}

FolderSource::FolderSource(std::vector<fs::path> files, const ImageLimits& limits)
    : files_(std::move(files)), limits_(limits) {
  for (const auto& file : files_) keys_.push_back(file.filename().string());
  classes_ = folder_classes(keys_);
}

Image FolderSource::load(int64_t index) const {
  const auto file = files_.empty() ? folder_ / keys_.at(index) : files_.at(index);
  try {
    return read_image(file, limits_);
  } catch (const UserError&) {
    std::error_code error;
    if (fs::exists(fs::symlink_status(file, error))) throw;
    throw RunError("{}: was listed at the start and is not there any more", file.string());
  }
}

}  // namespace nsvq
