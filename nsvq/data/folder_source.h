#pragma once

#include <filesystem>
#include <vector>

#include "nsvq/data/source.h"

namespace nsvq {

/// Image files on disk. Keys are their names below the folder, or their file names when given
/// singly.
class FolderSource : public Source {
 public:
  /// Every JPEG and PNG below `folder`, sorted by name; hidden files and folders are passed over.
  explicit FolderSource(const std::filesystem::path& folder);
  /// The given files, in the given order, without classes.
  explicit FolderSource(std::vector<std::filesystem::path> files);

  int64_t size() const override { return std::ssize(keys_); }
  std::string key(int64_t index) const override { return keys_.at(index); }
  int64_t label(int64_t index) const override { return labels_.at(index); }
  Image load(int64_t index) const override;

 private:
  std::filesystem::path folder_;              // empty when files_ is used
  std::vector<std::filesystem::path> files_;  // only for files given singly
  std::vector<std::string> keys_;
  std::vector<int64_t> labels_;
};

}  // namespace nsvq
