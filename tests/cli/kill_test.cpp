// Kills real training processes with SIGKILL, also while they write checkpoints, continues them,
// and compares with a run that was left alone. NSVQ_KILLS sets the number of kills.

#include <gtest/gtest.h>

#include "nsvq/core/temporary_folder.h"
#include "tests/cli/kill.h"
#include "tests/train/run_traces.h"

namespace nsvq {
namespace {

TEST(Kill, ARunSurvivesAnyNumberOfKills) {
  TemporaryFolder folder;
  const auto command = [](const std::filesystem::path& run) -> std::vector<std::string> {
    return {"train", NSVQ_TESTS_DIR "/killed.yaml", "--run", run.string()};
  };
  kill_and_compare(folder.path(), command, expect_same_runs);
}

}  // namespace
}  // namespace nsvq
