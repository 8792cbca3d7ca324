#include "nsvq/data/streams/stream_plan.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "nsvq/core/random.h"

namespace nsvq {

namespace {

/// Position of the rank's first image in the sequence of all images.
int64_t stretch_start(Sampler sampler) {
  int64_t start = 0;
  for (const int rank = std::exchange(sampler.rank, 0); sampler.rank < rank; ++sampler.rank) {
    start += sampler.slots();
  }
  return start;
}

/// The shards of the epoch, cut to the rank's images.
std::vector<ShardPart> choose_parts(const std::vector<int64_t>& starts, const Sampler& sampler,
                                    int64_t epoch) {
  Sampler shards = sampler;
  shards.images = std::ssize(starts) - 1;
  const int64_t from = stretch_start(sampler), to = from + sampler.slots();
  std::vector<ShardPart> parts;
  int64_t before = 0;  // images in the shards before
  for (const int64_t shard : shards.order(epoch)) {
    const int64_t first = std::min(starts[shard], sampler.images);
    const int64_t size = std::min(starts[shard + 1], sampler.images) - first;
    const ShardPart part{shard, first + std::clamp<int64_t>(from - before, 0, size),
                         first + std::clamp<int64_t>(to - before, 0, size)};
    if (part.size() > 0) parts.push_back(part);
    before += size;
  }
  return parts;
}

/// Indices into `read_at` and `slot` in the order of reading: one image of each of `streams` parts
/// in turn; when a part ends, the next one begins.
std::vector<int64_t> reading_order(const StreamPlan& plan, size_t streams) {
  struct Stream {
    int64_t next, end;
  };
  std::vector<int64_t> order;
  std::vector<Stream> open;
  size_t begun = 0;
  const auto begin_part = [&]() -> Stream {
    const int64_t first = plan.first[begun];
    return {first, first + plan.parts[begun++].size()};
  };
  while (open.size() < streams && begun < plan.parts.size()) open.push_back(begin_part());
  while (!open.empty()) {
    for (auto& stream : open) {
      order.push_back(stream.next++);
      if (stream.next == stream.end && begun < plan.parts.size()) stream = begin_part();
    }
    std::erase_if(open, [](const Stream& stream) { return stream.next == stream.end; });
  }
  return order;
}

/// Draws each image at random from the buffer; the next image read replaces it there.
std::vector<int64_t> shuffled(const std::vector<int64_t>& reading, int64_t buffer, Random random) {
  const int64_t count = std::ssize(reading);
  const int64_t held = std::min(buffer, count);
  std::vector<int64_t> waiting(reading.begin(), reading.begin() + held), order;
  order.reserve(reading.size());
  for (int64_t next = held; !waiting.empty(); ++next) {
    auto& drawn = waiting[random.below(std::ssize(waiting))];
    order.push_back(drawn);
    if (next < count) {
      drawn = reading[next];
    } else {
      drawn = waiting.back();
      waiting.pop_back();
    }
  }
  return order;
}

}  // namespace

StreamPlan plan_stream(const std::vector<int64_t>& shard_starts, const Sampler& sampler,
                       int64_t epoch, int64_t buffer) {
  StreamPlan plan;
  plan.buffer = sampler.shuffle ? buffer : 1;
  plan.parts = choose_parts(shard_starts, sampler, epoch);
  int64_t count = 0;
  std::vector<int64_t> image;  // index in the source, by index into `read_at` and `slot`
  for (const auto& part : plan.parts) {
    plan.first.push_back(count);
    count += part.size();
    for (int64_t i = part.first; i < part.end; ++i) image.push_back(i);
  }
  const auto reading = reading_order(plan, sampler.shuffle ? StreamPlan::kStreams : 1);
  constexpr uint64_t purpose = 0x62756666;  // makes it differ from the seeds of images
  const auto using_order =
      shuffled(reading, plan.buffer,
               Random(combine_seeds({sampler.seed, static_cast<uint64_t>(epoch),
                                     static_cast<uint64_t>(sampler.rank), purpose})));
  plan.read_at.resize(count);
  plan.slot.resize(count);
  for (int64_t i = 0; i < count; ++i) {
    plan.read_at[reading[i]] = i;
    plan.slot[using_order[i]] = i;
    plan.images.push_back(image[using_order[i]]);
  }
  return plan;
}

}  // namespace nsvq
