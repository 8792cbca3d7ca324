#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "nsvq/data/sources/image_names.h"
#include "nsvq/data/sources/source.h"
#include "nsvq/io/formats/tar.h"

namespace nsvq {

/// The images among the entries of tar shards, in the order of the shards. In WebDataset shards an
/// entry `name.cls` beside `name.jpg` holds the class number; it takes precedence over the
/// folder's.
class TarSource : public Source {
 public:
  explicit TarSource(const std::vector<std::filesystem::path>& shards,
                     const ImageLimits& limits = {});

  int64_t size() const override { return std::ssize(entries_); }
  std::string key(int64_t index) const override { return keys_.at(index); }
  int64_t label(int64_t index) const override;
  /// Empty if any image has a class number of its own.
  std::vector<std::string> classes() const override;
  Image load(int64_t index) const override;

  /// Image entries of formats that are not read.
  const PassedOver& passed_over() const { return passed_over_; }

 private:
  struct Entry {
    int32_t shard;
    int32_t image;       // index among the shard's entries
    int32_t class_file;  // index of its .cls entry, or -1
  };

  void add_shard(int32_t shard);
  std::string name_of(const Entry& entry, int32_t number) const;

  std::vector<std::filesystem::path> paths_;
  std::vector<TarReader> shards_;
  std::vector<Entry> entries_;
  std::vector<std::string> keys_;
  FolderClasses classes_;
  bool numbered_ = false;  ///< whether an image has a .cls entry
  PassedOver passed_over_;
  ImageLimits limits_;
};

}  // namespace nsvq
