#include "nsvq/data/loader/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/data/loader/sampler.h"
#include "tests/data/fake_source.h"

namespace nsvq {
namespace {

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
  std::atomic<int64_t> asked = 0, farthest = 0;  // batches asked for; an image's index beyond them
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
