// What the loader does about images that cannot be used.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>

#include "nsvq/core/error.h"
#include "nsvq/data/loader/sampler.h"
#include "nsvq/data/sources/combined_sources.h"
#include "tests/data/fake_source.h"

namespace nsvq {
namespace {

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

TEST(Loader, NothingUsableIsAnError) {
  const auto source = std::make_shared<FakeSource>(5, std::set<int64_t>{0, 1, 2, 3, 4});
  for (const bool shuffle : {true, false}) {
    Loader loader(source, small(shuffle, 2));
    EXPECT_THROW(loader.next(), UserError) << shuffle;
  }
}

}  // namespace
}  // namespace nsvq
