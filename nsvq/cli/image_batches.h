#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <future>
#include <thread>
#include <tuple>
#include <vector>

#include "nsvq/cli/pairs.h"

namespace nsvq {

/// Calls `use(load(i))` for 0 <= i < count in order, loading a few ahead in threads.
template <typename Load, typename Use>
void load_ahead(int64_t count, const Load& load, const Use& use) {
  const int64_t ahead = std::clamp<int64_t>(std::thread::hardware_concurrency(), 2, 16);
  std::deque<std::future<std::invoke_result_t<Load, int64_t>>> loading;
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
  explicit ImageBatches(std::function<void(const EvalBatch&)> use) : use_(std::move(use)) {}

  void add(ImagePair pair);
  /// Hands on what is left.
  void flush();

 private:
  using Shape = std::tuple<bool, bool, int, int>;

  std::function<void(const EvalBatch&)> use_;
  Shape shape_;
  std::vector<ImagePair> pairs_;
};

}  // namespace nsvq
