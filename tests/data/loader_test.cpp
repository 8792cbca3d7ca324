#include "nsvq/data/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/data/limited_source.h"
#include "nsvq/data/sampler.h"
#include "tests/data/files.h"

namespace nsvq {
namespace {

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
void await_loads(const FakeSource& source, int64_t count) {
  while (source.loads < count) std::this_thread::yield();
}

LoaderOptions small(bool shuffle, int64_t batch_size = 4, int threads = 3) {
  LoaderOptions options;
  options.transform = {.size = 8, .crop = Crop::random, .flip = true};
  options.batch_size = batch_size;
  options.shuffle = shuffle;
  options.seed = 11;
  options.threads = threads;
  options.prefetch = 3;
  return options;
}

std::vector<Batch> rest_of_epoch(Loader& loader) {
  std::vector<Batch> batches;
  while (auto batch = loader.next()) batches.push_back(std::move(*batch));
  return batches;
}

void expect_same(const std::vector<Batch>& a, const std::vector<Batch>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].indices, b[i].indices);
    EXPECT_TRUE(a[i].images.equal(b[i].images)) << "batch " << i;
  }
}

std::vector<int64_t> all_indices(const std::vector<Batch>& batches) {
  std::vector<int64_t> all;
  for (const auto& batch : batches) {
    all.insert(all.end(), batch.indices.begin(), batch.indices.end());
  }
  return all;
}

TEST(Loader, OutputDoesNotDependOnThreadsOrPrefetch) {
  auto source = std::make_shared<FakeSource>(33, std::set<int64_t>{3, 4, 17});
  source->uneven = true;
  for (const bool shuffle : {true, false}) {
    Loader one(source, small(shuffle, 4, 1));
    one.start(2);
    const auto expected = rest_of_epoch(one);
    for (const int threads : {0, 2, 7}) {
      LoaderOptions options = small(shuffle, 4, threads);
      options.prefetch = threads;
      Loader many(source, options);
      many.start(2);
      expect_same(rest_of_epoch(many), expected);
    }
  }
}

TEST(Loader, BytesBecomeTheSameFloats) {
  // A short last batch, a broken image, a batch of broken ones alone, a start in the middle.
  const auto source = std::make_shared<FakeSource>(31, std::set<int64_t>{3, 8, 9, 10, 11});
  for (const bool shuffle : {true, false}) {
    auto options = small(shuffle);
    Loader floats(source, options);
    options.bytes = true;
    Loader bytes(source, options);
    expect_same(rest_of_epoch(bytes), rest_of_epoch(floats));
    EXPECT_FALSE(bytes.next());
    for (auto* loader : {&floats, &bytes}) {
      loader->start(1);
      loader->next();
      loader->start(2, 3);
    }
    expect_same(rest_of_epoch(bytes), rest_of_epoch(floats));
    EXPECT_EQ(bytes.broken(), floats.broken());
  }
}

TEST(Loader, ErrorsComeInTheirPlaceBesideABatchAhead) {
  auto source = std::make_shared<FakeSource>(20);
  source->fails = 9;
  auto options = small(false);
  options.bytes = true;
  Loader loader(source, options);
  loader.start(0);
  for (const int64_t first : {0, 4}) {
    await_loads(*source, first + 3 * 4);  // so that the next one is ready
    EXPECT_EQ(loader.next()->indices[0], first);
  }
  for (int i = 0; i < 2; ++i) EXPECT_THROW(loader.next(), std::logic_error);
  loader.start(0, 3);
  EXPECT_EQ(loader.next()->indices[0], 12);
}

TEST(Loader, DeliversTheSameOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const auto source = std::make_shared<FakeSource>(63, std::set<int64_t>{3, 8, 9, 10, 11});
  auto options = small(false);
  Loader here(source, options);
  options.device = c10::Device(c10::kCUDA, 0);
  Loader there(source, options);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    here.start(epoch);
    there.start(epoch);
    auto batches = rest_of_epoch(there);  // all on the device before the first is looked at
    for (auto& batch : batches) {
      EXPECT_TRUE(batch.images.is_cuda());
      batch.images = batch.images.cpu();
    }
    expect_same(batches, rest_of_epoch(here));
  }
}

TEST(Loader, StartsAnywhere) {
  const auto source = std::make_shared<FakeSource>(41, std::set<int64_t>{5});
  for (const bool shuffle : {true, false}) {
    Loader loader(source, small(shuffle));
    loader.start(3);
    const auto whole = rest_of_epoch(loader);
    for (int64_t from = 0; from <= loader.batches_per_epoch(); ++from) {
      loader.start(0);
      loader.next();  // abandoned in the middle
      loader.start(3, from);
      expect_same(rest_of_epoch(loader), {whole.begin() + from, whole.end()});
      EXPECT_FALSE(loader.next());
    }
  }
}

TEST(Loader, TrainingFollowsTheEpochsOrder) {
  const auto source = std::make_shared<FakeSource>(30);
  Loader loader(source, small(true));
  EXPECT_EQ(loader.batches_per_epoch(), 7);
  for (const int64_t epoch : {0, 1}) {
    loader.start(epoch);
    const auto batches = rest_of_epoch(loader);
    auto order = permutation(30, 11, epoch);
    order.resize(28);
    EXPECT_EQ(all_indices(batches), order);
    const auto shape = std::vector<int64_t>({4, 3, 8, 8});
    for (const auto& batch : batches) EXPECT_EQ(batch.images.sizes(), shape);
  }
  EXPECT_EQ(loader.broken(), 0);
}

TEST(Loader, BatchesThatAreNotSquare) {
  const auto source = std::make_shared<FakeSource>(5);
  auto options = small(false, 2);
  options.transform = {.height = 6, .width = 10};
  Loader loader(source, options);
  const auto batches = rest_of_epoch(loader);
  EXPECT_EQ(batches.at(1).images.sizes(), (std::vector<int64_t>{2, 3, 6, 10}));
  std::vector<float> expected(3 * 6 * 10);
  transform(source->load(3), options.transform, 0, expected);
  const auto image = batches[1].images[1].contiguous();
  EXPECT_EQ(std::vector<float>(image.data_ptr<float>(), image.data_ptr<float>() + image.numel()),
            expected);
}

TEST(Loader, PixelsAreThoseOfTheIndex) {
  const auto source = std::make_shared<FakeSource>(20);
  Loader loader(source, small(true));
  while (const auto batch = loader.next()) {
    for (size_t i = 0; i < batch->indices.size(); ++i) {
      const double corner = batch->images[i][2][7][7].item<double>();
      EXPECT_NEAR(corner, static_cast<double>(batch->indices[i]) / 127.5 - 1, 1e-6);
    }
  }
}

TEST(Loader, TrainingReplacesBrokenImagesByTheNextOfTheOrder) {
  const auto order = permutation(16, 11, 0);
  const auto source =
      std::make_shared<FakeSource>(16, std::set<int64_t>{order[2], order[3], order[15]});
  Loader loader(source, small(true));
  const auto batches = rest_of_epoch(loader);
  auto expected = order;
  expected[2] = expected[3] = order[4];
  expected[15] = order[0];
  EXPECT_EQ(all_indices(batches), expected);
  EXPECT_EQ(loader.broken(), 3);
}

TEST(Loader, BrokenImagesAreNamedAndCountedOnce) {
  const auto source = std::make_shared<FakeSource>(12, std::set<int64_t>{1, 8});
  ::testing::internal::CaptureStderr();
  {
    Loader loader(source, small(true));
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      loader.start(epoch);
      rest_of_epoch(loader);
    }
    EXPECT_EQ(loader.broken(), 2);
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
  EXPECT_NE(text.find("image 1: broken"), std::string::npos) << text;
  EXPECT_NE(text.find("image 8: broken"), std::string::npos) << text;
}

TEST(Loader, LoadersOfOneSourceNameABrokenImageOnce) {
  const auto source = std::make_shared<FakeSource>(12, std::set<int64_t>{1, 8});
  const auto limited = std::make_shared<LimitedSource>(source, 6);
  ::testing::internal::CaptureStderr();
  for (const bool shuffle : {true, false}) {
    Loader loader(source, small(shuffle));
    rest_of_epoch(loader);
    Loader first(limited, small(shuffle));
    rest_of_epoch(first);
    EXPECT_EQ(loader.broken(), 2);
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
}

TEST(Loader, ManyBrokenImagesAreNotAllNamed) {
  std::set<int64_t> broken;
  for (int64_t i = 1; i < 500; ++i) broken.insert(i);
  const auto source = std::make_shared<FakeSource>(500, broken);
  ::testing::internal::CaptureStderr();
  {
    Loader loader(source, small(false));
    rest_of_epoch(loader);
    EXPECT_EQ(loader.broken(), 499);
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 21) << text;
  EXPECT_NE(text.find("more than 20 images are broken"), std::string::npos) << text;
}

TEST(Loader, EvaluationLeavesBrokenImagesOut) {
  // All of the second batch is broken: it is passed over, not taken for the end.
  const auto source = std::make_shared<FakeSource>(11, std::set<int64_t>{1, 4, 5, 6, 7});
  Loader loader(source, small(false));
  EXPECT_EQ(loader.batches_per_epoch(), 3);
  const auto batches = rest_of_epoch(loader);
  ASSERT_EQ(batches.size(), 2U);
  EXPECT_EQ(batches[0].indices, std::vector<int64_t>({0, 2, 3}));
  EXPECT_EQ(batches[1].indices, std::vector<int64_t>({8, 9, 10}));
  EXPECT_EQ(batches[0].images.size(0), 3);
  EXPECT_TRUE(batches[0].images.is_contiguous());
  EXPECT_NEAR(batches[0].images[1][2][7][7].item<double>(), 2 / 127.5 - 1, 1e-6);
  EXPECT_EQ(loader.broken(), 5);
}

TEST(Loader, RanksShareTheEpoch) {
  const auto source = std::make_shared<FakeSource>(26);
  for (const bool shuffle : {true, false}) {
    std::vector<int64_t> seen;
    for (int rank = 0; rank < 3; ++rank) {
      LoaderOptions options = small(shuffle, 2);
      options.rank = rank;
      options.world = 3;
      Loader loader(source, options);
      const auto part = all_indices(rest_of_epoch(loader));
      seen.insert(seen.end(), part.begin(), part.end());
    }
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end());
    EXPECT_EQ(seen.size(), shuffle ? 24U : 26U);
  }
}

TEST(Loader, StopsAtABrokenImageWhenAsked) {
  const auto source = std::make_shared<FakeSource>(20, std::set<int64_t>{9, 10});
  LoaderOptions options = small(false);
  options.on_error = OnError::stop;
  Loader loader(source, options);
  EXPECT_TRUE(loader.next());
  EXPECT_TRUE(loader.next());
  for (int i = 0; i < 2; ++i) {  // the same error when asked again
    try {
      loader.next();
      ADD_FAILURE();
    } catch (const UserError& error) {
      EXPECT_STREQ(error.what(), "image 9: broken");
    }
  }
}

TEST(Loader, OtherExceptionsComeOutOfNext) {
  auto source = std::make_shared<FakeSource>(20);
  source->fails = 0;
  Loader loader(source, small(false));
  EXPECT_THROW(loader.next(), std::logic_error);
  loader.start(0, 1);
  EXPECT_EQ(loader.next()->indices[0], 4);
}

TEST(Loader, NothingUsableIsAnError) {
  const auto source = std::make_shared<FakeSource>(5, std::set<int64_t>{0, 1, 2, 3, 4});
  for (const bool shuffle : {true, false}) {
    Loader loader(source, small(shuffle, 2));
    EXPECT_THROW(loader.next(), UserError) << shuffle;
  }
}

TEST(Loader, TooFewImagesForABatch) {
  try {
    Loader loader(std::make_shared<FakeSource>(7), small(true, 8));
    ADD_FAILURE();
  } catch (const UserError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("7 images"), std::string::npos) << text;
    EXPECT_NE(text.find("batch of 8"), std::string::npos) << text;
  }
  LoaderOptions two = small(true, 4);
  two.world = 2;
  EXPECT_THROW(Loader(std::make_shared<FakeSource>(7), two), UserError);
  EXPECT_THROW(Loader(std::make_shared<FakeSource>(7), small(true, 0)), UserError);
  Loader short_one(std::make_shared<FakeSource>(1), small(false, 8));
  EXPECT_EQ(short_one.next()->images.size(0), 1);
  EXPECT_FALSE(short_one.next());
}

TEST(Loader, PrefetchIsBounded) {
  const auto source = std::make_shared<FakeSource>(400);
  std::atomic<int64_t> asked = 0, farthest = 0;  // batches asked for; an image's place beyond them
  source->on_load = [&](int64_t index) {
    int64_t ahead = index - 4 * asked, before = farthest;
    while (ahead > before && !farthest.compare_exchange_weak(before, ahead)) {
    }
  };
  Loader loader(source, small(false));
  loader.start(0);
  for (; asked < 100; ++asked, loader.next()) {
    await_loads(*source, std::min<int64_t>(4 * asked + 3 * 4, 400));
  }
  EXPECT_EQ(farthest, 3 * 4 - 1);
}

TEST(Loader, EndsAtAnyPoint) {
  auto source = std::make_shared<FakeSource>(64);
  source->uneven = true;
  for (int taken = 0; taken < 8; ++taken) {
    Loader loader(source, small(true, 4, 4));
    if (taken % 2 == 1) loader.start(taken);
    for (int i = 0; i < taken; ++i) EXPECT_TRUE(loader.next());
    if (taken == 5) loader.start(9);
  }
  EXPECT_EQ(source.use_count(), 1);
}

TEST(Loader, ABatchOutlivesItsLoader) {
  Batch batch;
  {
    Loader loader(std::make_shared<FakeSource>(8), small(false));
    batch = std::move(*loader.next());
  }
  EXPECT_NEAR(batch.images[3][2][7][7].item<double>(), 3 / 127.5 - 1, 1e-6);
}

}  // namespace
}  // namespace nsvq
