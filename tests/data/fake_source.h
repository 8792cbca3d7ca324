#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/data/loader/loader.h"
#include "tests/data/files.h"

// Images for tests of the loader, and what reads them.

namespace nsvq {

/// Images of one colour each; `broken` ones cannot be decoded.
class FakeSource : public Source {
 public:
  explicit FakeSource(int64_t size, std::set<int64_t> broken = {})
      : size_(size), broken_(std::move(broken)) {}

  int64_t size() const override { return size_; }
  std::string key(int64_t index) const override { return fmt::format("image {}", index); }
  int64_t label(int64_t) const override { return -1; }
  Image load(int64_t index) const override {
    if (on_load) on_load(index);
    ++loads;
    if (index == fails) throw std::logic_error("not a user's error");
    if (broken_.contains(index)) throw UserError("{}: broken", key(index));
    for (int64_t i = 0; uneven && i < 20 * (index % 3); ++i) std::this_thread::yield();
    Image image = testing_files::plain_image(9, 8, static_cast<uint8_t>(index));
    image.pixels[0] ^= 128;  // so that crops and flips show
    return image;
  }

  bool uneven = false;  ///< some images take their time, so that threads overtake each other
  std::function<void(int64_t)> on_load;  ///< called by the loader's threads
  int64_t fails = -1;
  mutable std::atomic<int64_t> loads = 0;

 private:
  int64_t size_;
  std::set<int64_t> broken_;
};

/// The loader's threads get there by themselves.
inline void await_loads(const FakeSource& source, int64_t count) {
  while (source.loads < count) std::this_thread::yield();
}

inline LoaderOptions small(bool shuffle, int64_t batch_size = 4, int threads = 3) {
  LoaderOptions options;
  options.transform = {.size = 8, .crop = Crop::random, .flip = true};
  options.batch_size = batch_size;
  options.shuffle = shuffle;
  options.seed = 11;
  options.threads = threads;
  options.prefetch = 3;
  return options;
}

inline std::vector<Batch> rest_of_epoch(Loader& loader) {
  std::vector<Batch> batches;
  while (auto batch = loader.next()) batches.push_back(std::move(*batch));
  return batches;
}

inline void expect_same(const std::vector<Batch>& a, const std::vector<Batch>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].indices, b[i].indices);
    EXPECT_TRUE(a[i].images.equal(b[i].images)) << "batch " << i;
  }
}

inline std::vector<int64_t> all_indices(const std::vector<Batch>& batches) {
  std::vector<int64_t> all;
  for (const auto& batch : batches) {
    all.insert(all.end(), batch.indices.begin(), batch.indices.end());
  }
  return all;
}

}  // namespace nsvq
