#include "nsvq/metrics/image_batches.h"

#include <algorithm>
#include <deque>
#include <future>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "nsvq/core/progress.h"

namespace nsvq {

namespace {

/// Calls `use(load(i))` for 0 <= i < count in order, loading a few ahead in threads.
void load_ahead(int64_t count, const std::function<ImagePair(int64_t)>& load,
                const std::function<void(ImagePair)>& use) {
  const int64_t ahead = std::clamp<int64_t>(std::thread::hardware_concurrency(), 2, 16);
  std::deque<std::future<ImagePair>> loading;
  for (int64_t started = 0; started < count || !loading.empty();) {
    while (started < count && std::ssize(loading) < ahead) {
      loading.push_back(std::async(std::launch::async, load, started++));
    }
    auto loaded = loading.front().get();
    loading.pop_front();
    use(std::move(loaded));
  }
}

/// Gathers neighbours of one size into batches, small ones for large images.
class ImageBatches {
 public:
  explicit ImageBatches(const std::function<void(const EvalBatch&)>& use) : use_(use) {}

  void add(ImagePair pair) {
    const Image& image = pair.reference ? *pair.reference : *pair.other;
    const Shape shape = {pair.reference.has_value(), pair.other.has_value(), image.width,
                         image.height};
    constexpr int64_t most_pixels = 1 << 20, most_images = 32;
    const int64_t room = most_pixels / (int64_t{image.width} * image.height);
    if (shape != shape_ || std::ssize(pairs_) >= std::clamp<int64_t>(room, 1, most_images)) flush();
    shape_ = shape;
    pairs_.push_back(std::move(pair));
  }

  /// Hands on what is left.
  void flush() {
    if (!pairs_.empty()) use_(to_batch(pairs_));
    pairs_.clear();
  }

 private:
  using Shape = std::tuple<bool, bool, int, int>;

  const std::function<void(const EvalBatch&)>& use_;
  Shape shape_;
  std::vector<ImagePair> pairs_;
};

}  // namespace

void for_each_batch(const std::string& title, int64_t count,
                    const std::function<ImagePair(int64_t)>& load,
                    const std::function<void(const EvalBatch&)>& use) {
  ImageBatches batches(use);
  Progress progress(title, count, "images");
  int64_t done = 0;
  load_ahead(count, load, [&](ImagePair pair) {
    batches.add(std::move(pair));
    progress.update(++done);
  });
  batches.flush();
  progress.finish();
}

}  // namespace nsvq
