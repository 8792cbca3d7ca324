// Kills real training processes with SIGKILL at random moments, also while they write checkpoints,
// continues them, and compares with a run that was left alone. NSVQ_KILLS sets the number of kills.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "nsvq/core/random.h"
#include "nsvq/io/file.h"
#include "tests/temporary_folder.h"
#include "tests/train/run_traces.h"

extern char** environ;

namespace nsvq {
namespace {

namespace fs = std::filesystem;

constexpr auto kRecipe = R"(
threads: 1
data: {train: "builtin:dead-leaves?size=16&count=24", val: "builtin:dead-leaves?size=16&count=7&seed=1", size: 16}
model: {width: 8, multipliers: [1, 2], blocks: 1, latent_dim: 8}
quantizer: {codes: 64, init: data}
adversarial: {weight: 0.1, width: 4, layers: 1, lecam: 0.1}
optimizer: {lr: 1e-3, ema_decay: 0.9}
replacement: {exempt_epochs: 1}
schedule: {freeze: epoch, freeze_epoch: 5, warmup_epochs: 2}
train: {epochs: 16, batch_size: 8, log_every: 1, samples: 2, samples_every: 4, eval_every: 2}
drift: {every_steps: 3, images: 4}
checkpoint: {every_steps: 1, keep: 2}
)";

pid_t start(const fs::path& recipe, const fs::path& run) {
  const auto log = (run.string() + ".log");
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  std::vector<std::string> words = {NSVQ_PROGRAM, "train", recipe.string(), "--run", run.string()};
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = -1;
  EXPECT_EQ(posix_spawn(&child, NSVQ_PROGRAM, &files, nullptr, arguments.data(), environ), 0);
  posix_spawn_file_actions_destroy(&files);
  return child;
}

int wait_for(pid_t child) {
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

TEST(Kill, ARunSurvivesAnyNumberOfKills) {
  TemporaryFolder folder;
  const auto recipe = folder / "recipe.yaml";
  write_text(recipe, kRecipe);
  const auto seconds = [] { return std::chrono::steady_clock::now(); };
  const auto began = seconds();
  ASSERT_EQ(wait_for(start(recipe, folder / "whole")), 0) << read_text(folder / "whole.log");
  const std::chrono::duration<double> duration = seconds() - began;

  const char* asked = std::getenv("NSVQ_KILLS");
  const int kills = asked ? std::atoi(asked) : 6;
  Random random(static_cast<uint64_t>(::getpid()));
  int done = 0, killed = 0;
  for (int run = 0; killed < kills; ++run) {
    const auto path = folder / fmt::format("killed-{}", run);
    while (true) {
      const auto child = start(recipe, path);
      // Over the whole run at first; each start then gets some way further.
      ::usleep(static_cast<useconds_t>(random.uniform() * duration.count() * 1e6));
      ::kill(child, SIGKILL);
      const int status = wait_for(child);
      if (WIFSIGNALED(status)) {
        ++killed;
        continue;
      }
      ASSERT_EQ(status, 0) << read_text(path.string() + ".log");
      break;
    }
    expect_same_runs(folder / "whole", path);
    ++done;
    fs::remove_all(path);
  }
  std::printf("%d runs, killed %d times in all, each equal to the one left alone\n", done, killed);
}

}  // namespace
}  // namespace nsvq
