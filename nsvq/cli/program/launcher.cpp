#include "nsvq/cli/program/rank_process.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "nsvq/core/error.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/processes/spawn.h"

namespace nsvq {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::array kPassedOn = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
constexpr std::chrono::seconds kGrace(30);

std::array<std::atomic<int>, kPassedOn.size()> arrived{};

void note_signal(int number) {
  for (size_t i = 0; i < kPassedOn.size(); ++i) {
    if (kPassedOn[i] == number) ++arrived[i];
  }
}

/// A free port of this machine.
int free_port() {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (!socket || ::bind(socket.get(), any, size) != 0 ||
      ::getsockname(socket.get(), any, &size) != 0) {
    throw RunError("no port of this machine is free: {}", std::strerror(errno));
  }
  return ntohs(address.sin_port);
}

ExecWords arguments_of(const std::vector<std::string>& words) {
  std::vector<std::string> all = {program_invocation_name};
  all.insert(all.end(), words.begin(), words.end());
  return ExecWords(all);
}

/// This process's environment with the variables of a rank.
ExecWords environment_of(int rank, int count, int port) {
  return ExecWords(
      environment_with({fmt::format("RANK={}", rank), fmt::format("LOCAL_RANK={}", rank),
                        fmt::format("WORLD_SIZE={}", count),
                        fmt::format("LOCAL_WORLD_SIZE={}", count), "MASTER_ADDR=127.0.0.1",
                        fmt::format("MASTER_PORT={}", port), "TORCHELASTIC_USE_AGENT_STORE="}));
}

/// In the child of a process with threads: only system calls.
[[noreturn]] void become_rank(const ExecWords& arguments, const ExecWords& environment) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // also where the launcher is killed
  ::setpgid(0, 0);                     // Ctrl-C goes to the launcher, which passes it on once
  ::execve("/proc/self/exe", arguments.get(), environment.get());
  ::_exit(127);
}

/// Exit code of a child, 128 + N for signal N.
int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

class Children {
 public:
  Children(int count, const std::vector<std::string>& words) : codes_(count, -1) {
    const int port = free_port();
    const auto arguments = arguments_of(words);
    for (int rank = 0; rank < count; ++rank) {
      const auto environment = environment_of(rank, count, port);
      const pid_t child = ::fork();
      if (child == 0) become_rank(arguments, environment);
      if (child < 0) {
        kill_all(SIGKILL);
        throw RunError("cannot start process {} of {}: {}", rank + 1, count, std::strerror(errno));
      }
      children_.push_back(child);
    }
  }

  int wait() {
    Clock::time_point failed{};
    while (running()) {
      collect();
      for (size_t i = 0; i < kPassedOn.size(); ++i) {
        for (; arrived[i] > 0; --arrived[i]) kill_all(kPassedOn[i]);
      }
      const bool failure = first_failure() != 0;
      if (failure && failed == Clock::time_point{}) failed = Clock::now();
      if (failure && Clock::now() - failed > kGrace) kill_all(SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return first_failure();
  }

 private:
  bool running() const {
    for (const int code : codes_) {
      if (code < 0) return true;
    }
    return false;
  }
  int first_failure() const {
    for (const int code : codes_) {
      if (code > 0) return code;
    }
    return 0;
  }
  void collect() {
    for (size_t rank = 0; rank < children_.size(); ++rank) {
      int status = 0;
      if (codes_[rank] < 0 && ::waitpid(children_[rank], &status, WNOHANG) == children_[rank]) {
        codes_[rank] = code_of(status);
      }
    }
  }
  void kill_all(int number) {
    for (size_t rank = 0; rank < children_.size(); ++rank) {
      if (codes_[rank] < 0) ::kill(children_[rank], number);
    }
  }

  std::vector<pid_t> children_;
  std::vector<int> codes_;  ///< -1: still running
};

}  // namespace

int launch_processes(int count, const std::vector<std::string>& words) {
  for (const int number : kPassedOn) {
    struct sigaction action {};
    action.sa_handler = note_signal;
    ::sigaction(number, &action, nullptr);
  }
  return Children(count, words).wait();
}

}  // namespace nsvq
