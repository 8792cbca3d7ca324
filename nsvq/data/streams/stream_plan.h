#pragma once

#include <cstdint>
#include <vector>

#include "nsvq/data/loader/sampler.h"

namespace nsvq {

/// Images [first, end) of a source, all in one shard.
struct ShardPart {
  int64_t shard = 0, first = 0, end = 0;
  int64_t size() const { return end - first; }
};

/// The images that a rank reads in an epoch of a source that cannot seek, and the order of their
/// use.
///
/// The shards, in a new order each epoch, form a sequence of images, which is divided equally among
/// the ranks. In training kStreams shards are read concurrently, one image of each in turn, and
/// pass through a shuffle buffer. In evaluation the order of the source is kept.
struct StreamPlan {
  static constexpr int kStreams = 4;

  std::vector<ShardPart> parts;  ///< in the order in which their reading begins
  std::vector<int64_t> first;    ///< index of each part's first image in the two lists below
  std::vector<int64_t> read_at;  ///< per image: position in the order of reading
  std::vector<int64_t> slot;     ///< per image: position in the order of use
  std::vector<int64_t> images;   ///< index in the source, by slot
  int64_t buffer = 1;            ///< read_at - slot is less than `buffer`
};

/// Depends on the arguments alone. `shard_starts` is SequentialShards::shard_starts; only the first
/// sampler.images images are used.
StreamPlan plan_stream(const std::vector<int64_t>& shard_starts, const Sampler& sampler,
                       int64_t epoch, int64_t buffer);

}  // namespace nsvq
