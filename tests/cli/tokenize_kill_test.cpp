// Kills real `nsvq tokenize` processes with SIGKILL at random moments, starts them again, and
// compares with a folder made at once. NSVQ_KILLS sets the number of kills.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <map>

#include "nsvq/core/random.h"
#include "nsvq/io/file.h"
#include "tests/cli/model_file.h"
#include "tests/temporary_folder.h"
#include "tests/train/tiny.h"

extern char** environ;

namespace nsvq {
namespace {

namespace fs = std::filesystem;

pid_t start_tokenize(const fs::path& model, const fs::path& out) {
  const auto log = out.string() + ".log";
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  std::vector<std::string> words = {NSVQ_PROGRAM,
                                    "tokenize",
                                    model.string(),
                                    "--data",
                                    "builtin:dead-leaves?size=24&count=1500",
                                    "--out",
                                    out.string(),
                                    "--shard-size",
                                    "8"};
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = -1;
  EXPECT_EQ(posix_spawn(&child, NSVQ_PROGRAM, &files, nullptr, arguments.data(), environ), 0);
  posix_spawn_file_actions_destroy(&files);
  return child;
}

int wait_for_end(pid_t child) {
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

std::map<std::string, std::vector<std::byte>> files_in(const fs::path& folder) {
  std::map<std::string, std::vector<std::byte>> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename().string()] = read_file(entry.path());
  }
  return files;
}

TEST(TokenizeKill, TheFolderIsTheSameAfterAnyNumberOfKills) {
  TemporaryFolder folder;
  const auto model = folder / "model.safetensors";
  write_model_file(model, tiny_config());
  const auto began = std::chrono::steady_clock::now();
  ASSERT_EQ(wait_for_end(start_tokenize(model, folder / "whole")), 0)
      << read_text(folder / "whole.log");
  const std::chrono::duration<double> duration = std::chrono::steady_clock::now() - began;
  const auto whole = files_in(folder / "whole");
  EXPECT_EQ(whole.size(), 188u + 2);  // shards, manifest, lock

  const char* asked = std::getenv("NSVQ_KILLS");
  const int kills = asked ? std::atoi(asked) : 6;
  Random random(static_cast<uint64_t>(::getpid()));
  int killed = 0, folders = 0;
  for (int number = 0; killed < kills; ++number) {
    const auto out = folder / fmt::format("killed-{}", number);
    while (true) {
      const auto child = start_tokenize(model, out);
      ::usleep(static_cast<useconds_t>(random.uniform() * duration.count() * 1e6));
      ::kill(child, SIGKILL);
      const int status = wait_for_end(child);
      if (WIFSIGNALED(status)) {
        ++killed;
        continue;
      }
      ASSERT_EQ(status, 0) << read_text(out.string() + ".log");
      break;
    }
    EXPECT_TRUE(files_in(out) == whole) << out;
    ++folders;
    fs::remove_all(out);
  }
  std::printf("%d folders, killed %d times in all, each equal to the one left alone\n", folders,
              killed);
}

}  // namespace
}  // namespace nsvq
