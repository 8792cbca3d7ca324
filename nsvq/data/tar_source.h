#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "nsvq/data/source.h"
#include "nsvq/io/tar.h"

namespace nsvq {

/// The JPEG and PNG entries of tar shards, in the order of the shards. WebDataset shards are such
/// shards: an entry `name.cls` beside `name.jpg` holds its class number and wins over the folder.
class TarSource : public Source {
 public:
  explicit TarSource(const std::vector<std::filesystem::path>& shards);

  int64_t size() const override { return std::ssize(entries_); }
  std::string key(int64_t index) const override { return keys_.at(index); }
  int64_t label(int64_t index) const override;
  Image load(int64_t index) const override;

 private:
  struct Entry {
    int32_t shard;
    int32_t image;       // its number in the shard
    int32_t class_file;  // the same for the .cls entry, -1 without one
  };

  void add_shard(int32_t shard);
  std::string name_of(const Entry& entry, int32_t number) const;

  std::vector<std::filesystem::path> paths_;
  std::vector<TarReader> shards_;
  std::vector<Entry> entries_;
  std::vector<std::string> keys_;
  std::vector<int64_t> labels_;  // by folder
};

}  // namespace nsvq
