#pragma once

#include <cstdint>
#include <vector>

#include "nsvq/data/loader/sampler.h"

namespace nsvq {

/// Images [first, end) of a source, which lie in one shard.
struct ShardPart {
  int64_t shard = 0, first = 0, end = 0;
  int64_t size() const { return end - first; }
};

/// What a rank reads in an epoch of a source that cannot seek, and in which order it uses it.
///
/// All shards, in a new order each epoch, make a row of images, of which each rank takes an equal
/// stretch. In training kStreams shards are read side by side, an image of each in turn, and go
/// through a shuffle buffer. In evaluation the order of the source is kept.
struct StreamPlan {
  static constexpr int kStreams = 4;

  std::vector<ShardPart> parts;  ///< in the order in which their reading begins
  std::vector<int64_t> first;    ///< where the images of each part begin in the two lists below
  std::vector<int64_t> place;    ///< of each image of the parts: when it is read, 0 first
  std::vector<int64_t> slot;     ///< likewise: when it is used
  std::vector<int64_t> images;   ///< by slot
  int64_t buffer = 1;            ///< an image is read less than `buffer` places after its slot
};

/// Depends on the arguments alone. `shard_starts` is SequentialShards::shard_starts, of which the
/// first sampler.images images are used.
StreamPlan plan_stream(const std::vector<int64_t>& shard_starts, const Sampler& sampler,
                       int64_t epoch, int64_t buffer);

}  // namespace nsvq
