#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "nsvq/data/sources/image_names.h"
#include "nsvq/data/sources/source.h"
#include "nsvq/data/streams/pipe_index.h"

namespace nsvq {

/// The images in tar archives that shell commands write, one archive per command, in the order of
/// the commands. `nsvq images index` must have listed them before, so that their number and names
/// are known; if a command writes different images, reading throws RunError.
///
/// `load` runs a command up to the image and keeps some of the following images for the next calls.
class PipeSource : public Source, public SequentialShards {
 public:
  explicit PipeSource(std::vector<std::string> commands, const ImageLimits& limits = {},
                      const Retries& retries = {});

  int64_t size() const override { return starts_.back(); }
  std::string key(int64_t index) const override { return keys_.at(index); }
  int64_t label(int64_t index) const override;
  /// Empty if any image has a class number of its own.
  std::vector<std::string> classes() const override;
  Image load(int64_t index) const override;
  const SequentialShards* shards() const override { return this; }

  const std::vector<int64_t>& shard_starts() const override { return starts_; }
  void read(int64_t shard, int64_t first, int64_t end, const Take& take,
            const std::stop_token& stop) const override;
  Image decode(int64_t index, std::span<const std::byte> bytes) const override;

 private:
  int64_t shard_of(int64_t index) const;
  void read_once(int64_t shard, int64_t first, int64_t end, const Take& take,
                 const std::stop_token& stop) const;
  void require_listed(int64_t shard, int64_t index, const std::string& name, int64_t bytes) const;
  void fill_recent(int64_t index) const;

  std::vector<std::string> commands_;
  std::vector<int64_t> starts_;  // index of each command's first image, then the number of images
  std::vector<PipedImage> images_;  // all commands' images
  std::vector<std::string> keys_;
  FolderClasses classes_;
  bool numbered_ = false;  // whether an image has a class number of its own
  ImageLimits limits_;
  Retries retries_;

  mutable std::mutex mutex_;  // guards recent_
  mutable std::map<int64_t, std::vector<std::byte>> recent_;
};

}  // namespace nsvq
