#include "nsvq/data/folder_source.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "nsvq/core/error.h"

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

/// What lies below a folder.
struct Listing {
  std::vector<std::string> images;        // paths within the folder
  std::map<std::string, int64_t> others;  // number of other files by ending
};

/// Adds the files of one folder to the listing and returns the folders in it. One that cannot be
/// read is named itself: its parent could.
std::vector<fs::path> list_folder(const fs::path& top, const fs::path& folder, Listing& listing) {
  std::vector<fs::path> folders;
  std::error_code error;
  fs::directory_iterator at(folder, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    const fs::path& path = at->path();
    std::error_code unknown;
    if (is_hidden(path)) continue;
    if (at->is_directory(unknown)) {
      folders.push_back(path);
    } else if (is_image_name(path.filename().string())) {
      listing.images.push_back(path.lexically_relative(top).generic_string());
    } else {
      ++listing.others[plain_ending(path.filename().string())];
    }
  }
  if (error) throw UserError("cannot list {}: {}", folder.string(), error.message());
  return folders;
}

Listing list_tree(const fs::path& top) {
  Listing listing;
  std::set<fs::path> seen;
  is_new(top, seen);
  std::vector<fs::path> waiting = {top};
  while (!waiting.empty()) {
    const fs::path folder = std::move(waiting.back());
    waiting.pop_back();
    for (auto& inner : list_folder(top, folder, listing)) {
      if (is_new(inner, seen)) waiting.push_back(std::move(inner));
    }
  }
  std::sort(listing.images.begin(), listing.images.end());
  return listing;
}

/// "3 .gif, 1 .txt", the most frequent first.
std::string describe_others(const std::map<std::string, int64_t>& others) {
  constexpr size_t most_named = 8;
  std::vector<std::pair<int64_t, std::string>> sorted;
  for (const auto& [ending, count] : others) sorted.emplace_back(-count, ending);
  std::sort(sorted.begin(), sorted.end());
  std::string text;
  int64_t rest = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    const auto& [count, ending] = sorted[i];
    if (ending.empty() || i >= most_named) {
      rest -= count;
    } else {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", -count, ending);
    }
  }
  if (rest > 0) text += fmt::format("{}{} other", text.empty() ? "" : ", ", rest);
  return text;
}

bool holds_shards(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (is_shard_name(entry.path().filename().string())) return true;
  }
  return false;
}

}  // namespace

FolderSource::FolderSource(const fs::path& folder, const ImageLimits& limits)
    : folder_(folder), limits_(limits) {
  auto listing = list_tree(folder);
  keys_ = std::move(listing.images);
  passed_over_ = describe_others(listing.others);
  if (keys_.empty()) {
    throw UserError(
        "no {} file below {}{}{}", kImageEndings, folder.string(),
        passed_over_.empty() ? "" : fmt::format(" (but {})", passed_over_),
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
  return read_image(files_.empty() ? folder_ / keys_.at(index) : files_.at(index), limits_);
}

}  // namespace nsvq
