// Batches of sources that are read in order.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/data/loader/loader.h"
#include "nsvq/data/sources/combined_sources.h"
#include "nsvq/data/sources/tar_source.h"
#include "nsvq/data/streams/stream_plan.h"
#include "tests/data/fake_source.h"
#include "tests/data/piped_tars.h"
#include "tests/held_pipe.h"

namespace nsvq {
namespace {

using namespace testing_files;

const std::vector<int64_t> kStarts = {0, 7, 7, 20, 21, 40, 52, 60};

TEST(StreamPlan, RanksShareTheImages) {
  for (const int world : {1, 2, 3}) {
    for (const bool shuffle : {true, false}) {
      std::vector<int64_t> all;
      for (int rank = 0; rank < world; ++rank) {
        const Sampler sampler{58, 4, shuffle, 5, rank, world};
        const auto plan = plan_stream(kStarts, sampler, 3, 8);
        EXPECT_EQ(std::ssize(plan.images), sampler.slots());
        all.insert(all.end(), plan.images.begin(), plan.images.end());
      }
      EXPECT_EQ(std::ssize(all), shuffle ? 58 / world * world : 58);
      EXPECT_EQ(std::set(all.begin(), all.end()).size(), all.size());
      EXPECT_LT(*std::max_element(all.begin(), all.end()), 58);
    }
  }
}

TEST(StreamPlan, EvaluationKeepsTheOrder) {
  const auto plan = plan_stream(kStarts, Sampler{60, 4, false, 5, 0, 1}, 0, 8);
  std::vector<int64_t> order(60);
  std::iota(order.begin(), order.end(), 0);
  EXPECT_EQ(plan.images, order);
  EXPECT_EQ(plan.slot, order);
  EXPECT_EQ(plan.read_at, order);
}

TEST(StreamPlan, ImagesAreReadInTimeAndNotTooEarly) {
  for (const int64_t buffer : {1, 2, 8, 1000}) {
    const auto plan = plan_stream(kStarts, Sampler{60, 4, true, 5, 0, 1}, 0, buffer);
    for (size_t i = 0; i < plan.slot.size(); ++i) {
      EXPECT_LT(plan.read_at[i], plan.slot[i] + buffer);
    }
    for (size_t part = 0; part < plan.parts.size(); ++part) {
      for (int64_t i = 0; i < plan.parts[part].size(); ++i) {
        const int64_t at = plan.first[part] + i;
        EXPECT_EQ(plan.images[plan.slot[at]], plan.parts[part].first + i);
        if (i > 0) {
          EXPECT_LT(plan.read_at[at - 1], plan.read_at[at]);
        }
      }
    }
  }
}

TEST(StreamPlan, EachEpochAndSeedHasItsOrder) {
  const auto order = [](uint64_t seed, int64_t epoch) {
    return plan_stream(kStarts, Sampler{60, 4, true, seed, 0, 1}, epoch, 8).images;
  };
  EXPECT_EQ(order(5, 0), order(5, 0));
  EXPECT_NE(order(5, 0), order(5, 1));
  EXPECT_NE(order(5, 0), order(6, 0));
}

LoaderOptions options_for(bool shuffle, int threads = 3) {
  auto options = small(shuffle, 4, threads);
  options.shuffle_buffer = 8;
  return options;
}

std::vector<Batch> epoch_of(const std::shared_ptr<const Source>& source,
                            const LoaderOptions& options, int64_t epoch, int64_t batch = 0) {
  Loader loader(source, options);
  loader.start(epoch, batch);
  return rest_of_epoch(loader);
}

TEST(Stream, EvaluationGivesTheBatchesOfTheTars) {
  const PipedTars tars({9, 1, 14, 8}, {3, 20});
  const auto direct = std::make_shared<TarSource>(tars.paths());
  expect_same(epoch_of(tars.open(), options_for(false), 0),
              epoch_of(direct, options_for(false), 0));
}

TEST(Stream, BatchesDoNotDependOnThreads) {
  const PipedTars tars({9, 1, 14, 8, 11}, {3, 20, 21});
  const auto source = tars.open();
  for (const bool shuffle : {true, false}) {
    const auto expected = epoch_of(source, options_for(shuffle, 1), 2);
    EXPECT_EQ(expected.size(), shuffle ? 10U : 11U);
    for (const int threads : {2, 7}) {
      expect_same(epoch_of(source, options_for(shuffle, threads), 2), expected);
    }
  }
}

TEST(Stream, StartsAtAnyBatch) {
  const PipedTars tars({9, 1, 14, 8, 11}, {3, 20, 21});
  const auto source = tars.open();
  for (const bool shuffle : {true, false}) {
    const auto whole = epoch_of(source, options_for(shuffle), 1);
    for (size_t first = 0; first <= whole.size(); ++first) {
      const auto rest = epoch_of(source, options_for(shuffle), 1, static_cast<int64_t>(first));
      expect_same(rest, {whole.begin() + static_cast<int64_t>(first), whole.end()});
    }
  }
}

TEST(Stream, OneLoaderGoesFromEpochToEpoch) {
  const PipedTars tars({9, 1, 14, 8, 11});
  const auto source = tars.open();
  Loader loader(source, options_for(true));
  for (const int64_t epoch : {0, 1, 2}) {
    loader.start(epoch);
    loader.next();  // and an epoch that is given up
    loader.start(epoch);
    expect_same(rest_of_epoch(loader), epoch_of(source, options_for(true), epoch));
  }
}

TEST(Stream, RanksTakeDifferentImages) {
  const PipedTars tars({9, 1, 14, 8, 11});
  const auto source = tars.open();
  for (const bool shuffle : {true, false}) {
    std::vector<int64_t> all;
    for (int rank = 0; rank < 3; ++rank) {
      auto options = options_for(shuffle);
      options.rank = rank;
      options.world = 3;
      const auto images = all_indices(epoch_of(source, options, 0));
      EXPECT_EQ(images.size(), shuffle ? 12U : rank == 0 ? 15U : 14U);
      all.insert(all.end(), images.begin(), images.end());
    }
    EXPECT_EQ(std::set(all.begin(), all.end()).size(), all.size());
  }
}

TEST(Stream, ALimitHolds) {
  const PipedTars tars({9, 1, 14, 8});
  const auto limited = std::make_shared<LimitedSource>(tars.open(), 12);
  std::vector<int64_t> order(12);
  std::iota(order.begin(), order.end(), 0);
  EXPECT_EQ(all_indices(epoch_of(limited, options_for(false), 0)), order);
}

TEST(Stream, ShardsThatAreDoneAreNotReadAgain) {
  const PipedTars tars(std::vector<int>(30, 4));
  const auto source = tars.open();
  tars.shards_read();
  epoch_of(source, options_for(true), 0);
  EXPECT_EQ(tars.shards_read().size(), 30U);
  epoch_of(source, options_for(true), 0, 25);  // 20 images are left, and some in the buffer
  EXPECT_LE(tars.shards_read().size(), 30U - 25 + 4 + 8);
  epoch_of(source, options_for(false), 0, 25);
  EXPECT_EQ(tars.shards_read().size(), 5U);
}

TEST(Stream, TheBufferBoundsWhatIsReadAhead) {
  const PipedTars tars(std::vector<int>(40, 20));
  const auto source = tars.open();
  tars.shards_read();
  Loader loader(source, options_for(true));
  loader.start(0);
  loader.next();
  // A batch of 4, three more prepared, a buffer of 8, 256 ahead: at most 14 shards, and 4 begun.
  EXPECT_LE(tars.shards_read().size(), 20U);
}

TEST(Stream, AFailureEndsTheEpoch) {
  const PipedTars tars({9, 8});
  const auto source = tars.open();
  std::filesystem::remove(tars.paths()[1]);
  for (const bool shuffle : {true, false}) {
    EXPECT_THROW(epoch_of(source, options_for(shuffle), 0), RunError);
  }
}

/// Waits for images that never come, in every thread, when it is destroyed.
TEST(Stream, ALoaderThatWaitsCanBeDestroyed) {
  const PipedTars tars({4, 4});
  const auto source = tars.open();
  HeldPipe pipe(tars.folder() / "pipe");
  // A script, so that the command does something different later.
  const auto script = fmt::format("sh {}", tars.folder().text("script"));
  write_text(tars.folder() / "script", "cat " + tars.paths()[0].string());
  index_pipes({script}, {});
  const auto waiting = std::make_shared<PipeSource>(std::vector{script});
  write_text(tars.folder() / "script", pipe.endless_command());
  {
    Loader loader(waiting, options_for(true));
    loader.start(0);
    pipe.await_start();
  }
  pipe.await_end();
}

}  // namespace
}  // namespace nsvq
