#include "nsvq/data/sources/first_readable.h"

#include <algorithm>
#include <span>

#include "nsvq/core/error.h"

namespace nsvq {

namespace {

template <typename Load>
bool is_readable(const Load& load, const std::function<void(const Image&)>& use) {
  try {
    const Image image = load();
    if (use) use(image);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

/// Each shard is read once, from its first image of interest to its last.
std::optional<int64_t> first_in_shards(const SequentialShards& shards,
                                       std::span<const int64_t> images,
                                       const std::function<void(const Image&)>& use) {
  const auto& starts = shards.shard_starts();
  std::optional<int64_t> found;
  while (!images.empty() && !found) {
    const auto next = std::ranges::upper_bound(starts, images.front());
    const auto here = images.first(std::ranges::lower_bound(images, *next) - images.begin());
    const auto take = [&](int64_t index, const std::vector<std::byte>& bytes) {
      if (!std::ranges::binary_search(here, index)) return true;
      if (is_readable([&] { return shards.decode(index, bytes); }, use)) found = index;
      return !found;
    };
    shards.read(next - starts.begin() - 1, here.front(), here.back() + 1, take, {});
    images = images.subspan(here.size());
  }
  return found;
}

}  // namespace

std::optional<int64_t> first_readable(const Source& source, const std::vector<int64_t>& images,
                                      const std::function<void(const Image&)>& use) {
  if (const auto* shards = source.shards()) return first_in_shards(*shards, images, use);
  const auto found = std::ranges::find_if(
      images, [&](int64_t index) { return is_readable([&] { return source.load(index); }, use); });
  return found == images.end() ? std::nullopt : std::optional(*found);
}

}  // namespace nsvq
