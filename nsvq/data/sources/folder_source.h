#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "nsvq/data/sources/image_names.h"
#include "nsvq/data/sources/source.h"

namespace nsvq {

/// Image files on disk. Keys are paths relative to the folder, or file names if files were listed.
class FolderSource : public Source {
 public:
  /// Every image below `folder`, sorted by name; hidden files and folders are ignored.
  explicit FolderSource(const std::filesystem::path& folder, const ImageLimits& limits = {});
  /// The listed files, in the given order, without class labels.
  explicit FolderSource(std::vector<std::filesystem::path> files, const ImageLimits& limits = {});

  int64_t size() const override { return std::ssize(keys_); }
  std::string key(int64_t index) const override { return keys_.at(index); }
  int64_t label(int64_t index) const override { return classes_.labels.at(index); }
  std::vector<std::string> classes() const override { return classes_.names; }
  Image load(int64_t index) const override;

  /// Files in the folder that are not read as images.
  const PassedOver& passed_over() const { return passed_over_; }

 private:
  std::filesystem::path folder_;              // empty when files_ is used
  std::vector<std::filesystem::path> files_;  // only if files were listed
  std::vector<std::string> keys_;
  FolderClasses classes_;
  PassedOver passed_over_;
  ImageLimits limits_;
};

}  // namespace nsvq
