#include "nsvq/io/processes/spawn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <string_view>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/files/file.h"

namespace nsvq {

namespace {

namespace fs = std::filesystem;

/// What the child needs to know, prepared before vfork.
struct ChildPlan {
  std::array<int, 3> streams;  // standard input, output and error; -1: /dev/null
  bool own_group;
  pid_t parent;
  const char* program;
  char* const* words;
  char* const* environment;
};

bool set_stream(int stream, int descriptor) {
  if (descriptor == stream) return ::fcntl(descriptor, F_SETFD, 0) == 0;  // dup2 would do nothing
  if (descriptor >= 0) return ::dup2(descriptor, stream) == stream;
  ::close(stream);
  const int opened = ::open("/dev/null", O_RDWR);
  return opened == stream || (opened >= 0 && ::dup2(opened, stream) == stream);
}

/// Signals at their defaults, SIGPIPE even if this process ignores it: a program that writes to a
/// closed pipe has to end. A handler must not run in the child, whose memory is this process's.
void reset_signals() {
  struct sigaction action {};
  for (int number = 1; number < NSIG; ++number) {
    if (::sigaction(number, nullptr, &action) != 0) continue;
    if (action.sa_handler == SIG_DFL) continue;
    if (action.sa_handler == SIG_IGN && number != SIGPIPE) continue;
    action = {};
    action.sa_handler = SIG_DFL;
    ::sigaction(number, &action, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

/// Runs in the child, which shares this process's memory until it executes the program: system
/// calls only. Returns an errno if that fails.
int become_program(const ChildPlan& plan) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != plan.parent) ::_exit(127);  // the parent has ended before that call
  if (plan.own_group) ::setpgid(0, 0);
  for (int stream = 0; stream < 3; ++stream) {
    if (!set_stream(stream, plan.streams[stream])) return errno;
  }
#if __GLIBC_PREREQ(2, 34)
  ::closefrom(STDERR_FILENO + 1);
#endif
  reset_signals();
  ::execvpe(plan.program, plan.words, plan.environment);
  return errno;
}

/// vfork rather than fork: no page tables are copied, which takes long for a process of many
/// gigabytes. Not posix_spawn, which cannot set PR_SET_PDEATHSIG.
[[gnu::noinline]] pid_t start_child(const ChildPlan& plan, volatile int& error) {
  const pid_t child = ::vfork();
  if (child == 0) {
    error = become_program(plan);
    ::_exit(127);
  }
  if (child < 0) error = errno;
  return child;
}

/// The message in the last lines of a log, which says why a command failed.
std::string last_message(const fs::path& log, uintmax_t from) {
  std::string text;
  if (const Descriptor file(::open(log.c_str(), O_RDONLY | O_CLOEXEC)); file) {
    constexpr off_t most = 1 << 16;
    const off_t end = ::lseek(file.get(), 0, SEEK_END);
    const off_t begin = std::max({static_cast<off_t>(from), end - most, off_t{0}});
    text.resize(static_cast<size_t>(std::max(end - begin, off_t{0})));
    const auto size = ::pread(file.get(), text.data(), text.size(), begin);
    text.resize(static_cast<size_t>(std::max(size, ssize_t{0})));
  }
  std::string found, last;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line = line.substr(line.rfind('\r') + 1);  // behind a progress bar
    if (line.empty()) continue;
    last = line;
    if (line.starts_with("nsvq: ")) found = line.substr(6);
  }
  return printable((found.empty() ? last : found).substr(0, 500));
}

}  // namespace

pid_t spawn_program(const std::string& program, const std::vector<std::string>& arguments,
                    const SpawnOptions& options) {
  std::vector<std::string> all = {program};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const ExecWords words(all), environment(environment_with(options.environment));
  const ChildPlan plan = {{options.input, options.output, options.error},
                          options.own_group,
                          ::getpid(),
                          program.c_str(),
                          words.get(),
                          environment.get()};
  sigset_t everything, before;
  sigfillset(&everything);
  ::pthread_sigmask(SIG_SETMASK, &everything, &before);
  volatile int error = 0;
  const pid_t child = start_child(plan, error);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error == 0) return child;
  if (child > 0) ::waitpid(child, nullptr, 0);
  errno = error;
  return -1;
}

pid_t spawn_shell(const std::string& command, const SpawnOptions& options) {
  return spawn_program("/bin/sh", {"-c", command}, options);
}

LoggedProcess::LoggedProcess(const std::string& program, const std::vector<std::string>& arguments,
                             const std::vector<std::string>& environment, fs::path log)
    : log_(std::move(log)) {
  fs::create_directories(log_.parent_path());
  const Descriptor file(
      ::open(log_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!file) throw RunError("{}: {}", log_.string(), std::strerror(errno));
  std::error_code ignored;
  log_from_ = fs::file_size(log_, ignored);
  SpawnOptions options;
  options.output = options.error = file.get();
  options.environment = environment;
  process_ = spawn_program(program, arguments, options);
  if (process_ < 0) throw RunError("cannot start {}: {}", program, std::strerror(errno));
}

std::optional<int> LoggedProcess::status() const {
  int status = 0;
  if (::waitpid(process_, &status, WNOHANG) != process_) return std::nullopt;
  return status;
}

std::string LoggedProcess::reason(int status) const {
  if (WIFSIGNALED(status)) {
    return fmt::format("killed by signal {}{}", WTERMSIG(status),
                       WTERMSIG(status) == SIGKILL ? " (too little memory?)" : "");
  }
  const auto said = last_message(log_, log_from_);
  return said.empty() ? fmt::format("ended with exit code {}", WEXITSTATUS(status)) : said;
}

void LoggedProcess::signal(int number) const { ::kill(-process_, number); }

ExecWords::ExecWords(std::vector<std::string> texts) : texts_(std::move(texts)) {
  for (auto& text : texts_) pointers_.push_back(text.data());
  pointers_.push_back(nullptr);
}

std::vector<std::string> environment_with(const std::vector<std::string>& own) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    const auto replaces = [&](const std::string& one) {
      return text.starts_with(one.substr(0, one.find('=') + 1));
    };
    if (std::none_of(own.begin(), own.end(), replaces)) all.emplace_back(text);
  }
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

}  // namespace nsvq
