#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "nsvq/core/random.h"
#include "nsvq/io/files/file.h"
#include "tests/cli/folder_watch.h"
#include "tests/reset_signals.h"

extern char** environ;

namespace nsvq {

/// The program in a process of its own; what it prints goes to `log`. It starts without the
/// standard streams that are `closed`.
class Program {
 public:
  Program(std::vector<std::string> words, const std::string& log,
          const std::vector<int>& closed = {}) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    posix_spawn_file_actions_adddup2(&files, ends[1], kHeldByProgram);
    for (const int stream : closed) posix_spawn_file_actions_addclose(&files, stream);
    words.insert(words.begin(), NSVQ_PROGRAM);
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const Attributes attributes;
    EXPECT_EQ(
        posix_spawn(&process_, NSVQ_PROGRAM, &files, attributes.get(), arguments.data(), environ),
        0);
    posix_spawn_file_actions_destroy(&files);
    ::close(ends[1]);
    ended_ = ends[0];
  }
  ~Program() {
    ::close(ended_);
    if (process_ > 0) wait();
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Waits until a file changes or the program ends; false once it has ended.
  bool wait_for_change(const FolderWatch& watch) const {
    // The program holds the other end of the pipe until it ends, however it ends.
    pollfd events[2] = {{watch.descriptor(), POLLIN, 0}, {ended_, POLLIN, 0}};
    while (::poll(events, 2, -1) < 0 && errno == EINTR) continue;
    return events[1].revents == 0;
  }
  void kill(int number = SIGKILL) const { ::kill(process_, number); }
  /// The status, as waitpid gives it.
  int wait() {
    int status = -1;
    EXPECT_EQ(::waitpid(std::exchange(process_, -1), &status, 0) > 0, true);
    return status;
  }

 private:
  /// What reset_signals does, for the program alone.
  class Attributes {
   public:
    Attributes() {
      sigset_t signals;
      sigemptyset(&signals);
      for (const int number : kHandledSignals) sigaddset(&signals, number);
      posix_spawnattr_init(&attributes_);
      posix_spawnattr_setsigdefault(&attributes_, &signals);
      posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGDEF);
    }
    ~Attributes() { posix_spawnattr_destroy(&attributes_); }
    Attributes(const Attributes&) = delete;
    Attributes& operator=(const Attributes&) = delete;
    const posix_spawnattr_t* get() const { return &attributes_; }

   private:
    posix_spawnattr_t attributes_{};
  };

  static constexpr int kHeldByProgram = 3;

  pid_t process_ = -1;
  int ended_ = -1;
};

/// Runs the program and sends a signal at the first change of a file below `watched` for which
/// `kill_at`, which gets the file's name, is true. A program that ends before is never waited for
/// any longer. Returns its status.
inline int run_and_kill(const std::vector<std::string>& words, const std::string& log,
                        const std::filesystem::path& watched,
                        const std::function<bool(const std::string&)>& kill_at,
                        int number = SIGKILL) {
  FolderWatch watch(watched);
  Program program(words, log);
  for (bool running = true; running;) {
    running = program.wait_for_change(watch);
    const auto changes = watch.changes();
    if (std::any_of(changes.begin(), changes.end(), kill_at)) {
      program.kill(number);
      break;
    }
  }
  return program.wait();
}

/// Runs the command that fills a folder, once undisturbed and then again and again with SIGKILL,
/// each folder until it is finished; `compare` gets the first folder and each other. NSVQ_KILLS
/// sets the number of kills.
///
/// A kill comes after a number of changes to files, never after a time: each folder has three,
/// anywhere in the first, second and last third of the changes that the undisturbed run made. Every
/// other one waits further for the next temporary name, so that it comes in the middle of an atomic
/// write. There are at most four starts for three kills, however fast or slow the machine is.
inline void kill_and_compare(
    const std::filesystem::path& folder,
    const std::function<std::vector<std::string>(const std::filesystem::path&)>& command,
    const std::function<void(const std::filesystem::path&, const std::filesystem::path&)>&
        compare) {
  constexpr int kKillsPerFolder = 3;
  const auto run = [&](const std::filesystem::path& out, const auto& kill_at) {
    return run_and_kill(command(out), out.string() + ".log", folder, kill_at);
  };
  const auto whole = folder / "whole";
  int64_t all_changes = 0;
  const int status = run(whole, [&](const std::string&) { return ++all_changes, false; });
  ASSERT_EQ(status, 0) << read_text(whole.string() + ".log");

  const char* asked = std::getenv("NSVQ_KILLS");
  const int kills = asked ? std::atoi(asked) : 6;
  const auto seed = static_cast<uint64_t>(::getpid());
  Random random(seed);
  int planned = 0, killed = 0;
  for (int finished = 0; planned < kills; ++finished) {
    const auto out = folder / fmt::format("killed-{}", finished);
    double before = 0;
    int last = SIGKILL;
    for (int i = 0; i < kKillsPerFolder && planned < kills && WIFSIGNALED(last); ++i, ++planned) {
      const double share = (i + random.uniform()) / kKillsPerFolder;
      auto left = static_cast<int64_t>((share - before) * static_cast<double>(all_changes));
      before = share;
      const bool in_a_write = planned % 2 == 1;
      last = run(out, [&](const std::string& name) {
        return --left <= 0 && (!in_a_write || name.find(".tmp") != std::string::npos);
      });
      killed += WIFSIGNALED(last) ? 1 : 0;
    }
    if (WIFSIGNALED(last)) last = run(out, [](const std::string&) { return false; });
    ASSERT_EQ(last, 0) << read_text(out.string() + ".log");
    compare(whole, out);
    std::filesystem::remove_all(out);
  }
  std::printf("killed %d times by %ld changes of files, seed %lu\n", killed, all_changes, seed);
  EXPECT_GT(killed, 0);
}

}  // namespace nsvq
