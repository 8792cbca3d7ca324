#include "nsvq/data/folder_source.h"

#include <algorithm>
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

std::vector<std::string> find_images(const fs::path& folder) {
  std::vector<std::string> keys;
  std::set<fs::path> seen;
  is_new(folder, seen);
  std::error_code error;
  fs::recursive_directory_iterator at(folder, fs::directory_options::follow_directory_symlink,
                                      error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    std::error_code unknown;
    if (at->is_directory(unknown)) {
      if (is_hidden(at->path()) || !is_new(at->path(), seen)) at.disable_recursion_pending();
    } else if (is_image_name(at->path().filename().string())) {
      keys.push_back(at->path().lexically_relative(folder).generic_string());
    }
  }
  if (error) throw UserError("cannot list {}: {}", folder.string(), error.message());
  std::sort(keys.begin(), keys.end());
  return keys;
}

bool holds_shards(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".tar") return true;
  }
  return false;
}

}  // namespace

FolderSource::FolderSource(const fs::path& folder) : folder_(folder), keys_(find_images(folder)) {
  if (keys_.empty()) {
    throw UserError(
        "no .jpg, .jpeg or .png file below {}{}", folder.string(),
        holds_shards(folder) ? "; for its tar shards give " + (folder / "*.tar").string() : "");
  }
  classes_ = folder_classes(keys_);
}

FolderSource::FolderSource(std::vector<fs::path> files) : files_(std::move(files)) {
  for (const auto& file : files_) keys_.push_back(file.filename().string());
  classes_ = folder_classes(keys_);
}

Image FolderSource::load(int64_t index) const {
  return read_image(files_.empty() ? folder_ / keys_.at(index) : files_.at(index));
}

}  // namespace nsvq
