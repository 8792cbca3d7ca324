#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "nsvq/core/random.h"
#include "nsvq/io/file.h"

extern char** environ;

namespace nsvq {

/// Starts the program in a process of its own; what it prints goes to `log`.
inline pid_t start_program(std::vector<std::string> words, const std::string& log) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  words.insert(words.begin(), NSVQ_PROGRAM);
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = -1;
  EXPECT_EQ(posix_spawn(&child, NSVQ_PROGRAM, &files, nullptr, arguments.data(), environ), 0);
  posix_spawn_file_actions_destroy(&files);
  return child;
}

inline int wait_for(pid_t child) {
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

/// Runs the command that fills a folder, once undisturbed and then again and again with SIGKILL at
/// random moments, each time until it has finished; `compare` gets the first folder and each other.
/// NSVQ_KILLS sets the number of kills.
inline void kill_and_compare(
    const std::filesystem::path& folder,
    const std::function<std::vector<std::string>(const std::filesystem::path&)>& command,
    const std::function<void(const std::filesystem::path&, const std::filesystem::path&)>&
        compare) {
  const auto start = [&](const std::filesystem::path& out) {
    return start_program(command(out), out.string() + ".log");
  };
  const auto whole = folder / "whole";
  const auto began = std::chrono::steady_clock::now();
  ASSERT_EQ(wait_for(start(whole)), 0) << read_text(whole.string() + ".log");
  const std::chrono::duration<double> duration = std::chrono::steady_clock::now() - began;

  const char* asked = std::getenv("NSVQ_KILLS");
  const int kills = asked ? std::atoi(asked) : 6;
  Random random(static_cast<uint64_t>(::getpid()));
  int finished = 0;
  for (int killed = 0; killed < kills; ++finished) {
    const auto out = folder / fmt::format("killed-{}", finished);
    int status = SIGKILL;
    while (WIFSIGNALED(status)) {
      const auto child = start(out);
      // Anywhere in the time of a whole run; each start gets some way further.
      ::usleep(static_cast<useconds_t>(random.uniform() * duration.count() * 1e6));
      ::kill(child, SIGKILL);
      status = wait_for(child);
      killed += WIFSIGNALED(status) ? 1 : 0;
    }
    ASSERT_EQ(status, 0) << read_text(out.string() + ".log");
    compare(whole, out);
    std::filesystem::remove_all(out);
    if (killed >= kills) std::printf("%d finished, killed %d times in all\n", finished + 1, killed);
  }
}

}  // namespace nsvq
