#include "nsvq/data/sources/selected_source.h"

#include <algorithm>
#include <utility>

namespace nsvq {

/// The shards of the whole source, of which the selected images are handed over.
class SelectedSource::Shards : public SequentialShards {
 public:
  Shards(const SequentialShards& all, const std::vector<int64_t>& images)
      : all_(all), images_(images) {
    for (const int64_t start : all.shard_starts()) {
      starts_.push_back(std::ranges::lower_bound(images, start) - images.begin());
    }
  }

  const std::vector<int64_t>& shard_starts() const override { return starts_; }

  void read(int64_t shard, int64_t first, int64_t end, const Take& take,
            const std::stop_token& stop) const override {
    if (first >= end) return;
    // The shard's last selected image: read on to its end, where failures show.
    const bool rest = end == starts_[shard + 1];
    const int64_t last = rest ? all_.shard_starts()[shard + 1] : images_[end - 1] + 1;
    const auto take_selected = [&](int64_t image, std::vector<std::byte> bytes) {
      if (first == end || image != images_[first]) return true;
      return take(first++, std::move(bytes));
    };
    all_.read(shard, images_[first], last, take_selected, stop);
  }

  Image decode(int64_t index, std::span<const std::byte> bytes) const override {
    return all_.decode(images_.at(index), bytes);
  }

 private:
  const SequentialShards& all_;
  const std::vector<int64_t>& images_;
  std::vector<int64_t> starts_;
};

SelectedSource::SelectedSource(std::shared_ptr<const Source> source, std::vector<int64_t> images)
    : source_(std::move(source)), images_(std::move(images)) {
  if (const auto* shards = source_->shards()) {
    shards_ = std::make_unique<const Shards>(*shards, images_);
  }
}

SelectedSource::~SelectedSource() = default;

const SequentialShards* SelectedSource::shards() const { return shards_.get(); }

std::vector<int64_t> images_in(const Source& source, const Part& part, int64_t first, int64_t end) {
  std::vector<int64_t> images;
  for (int64_t i = first; i < end; ++i) {
    if (part.contains(source.key(i))) images.push_back(i);
  }
  return images;
}

}  // namespace nsvq
