#include "nsvq/runs/layout/layout.h"

#include <gtest/gtest.h>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

TEST(Layout, NamesTellTheirNumbers) {
  EXPECT_EQ(checkpoint_name(12), "step-12");
  EXPECT_EQ(step_of_checkpoint("run/checkpoints/step-12"), 12);
  EXPECT_EQ(sample_name(7), "epoch-0007.png");
  EXPECT_EQ(sample_name(123456), "epoch-123456.png");
  EXPECT_EQ(epoch_of_sample("run/samples/epoch-0007.png"), 7);
  for (const char* name : {"step-", "step-x", "step--1", "12", "step-1.tmp"}) {
    EXPECT_EQ(step_of_checkpoint(name), std::nullopt) << name;
  }
  for (const char* name : {"epoch-.png", "epoch-1.jpg", "epoch-x.png", "1.png"}) {
    EXPECT_EQ(epoch_of_sample(name), std::nullopt) << name;
  }
}

TEST(Layout, CheckpointsAreInTheOrderOfTheirSteps) {
  const TemporaryFolder folder;
  EXPECT_TRUE(list_checkpoints(folder.path()).empty());
  EXPECT_FALSE(holds_run(folder.path()));
  const auto all = folder / kCheckpointsFolder;
  for (const int64_t step : {10, 9, 100}) fs::create_directories(all / checkpoint_name(step));
  write_text(all / kBestFile, "step-9\n");
  const auto found = list_checkpoints(folder.path());
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found.front().filename(), "step-9");
  EXPECT_EQ(found.back().filename(), "step-100");
  EXPECT_TRUE(holds_run(folder.path()));
}

}  // namespace
}  // namespace nsvq
