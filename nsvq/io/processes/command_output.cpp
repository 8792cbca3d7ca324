#include "nsvq/io/processes/command_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/text.h"
#include "nsvq/io/processes/spawn.h"

namespace nsvq {

namespace {

constexpr size_t kMostSaid = 4096, kMostShown = 200;
constexpr int kPipeBytes = 1 << 20;

/// The read end and the write end.
std::pair<Descriptor, Descriptor> make_pipe() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) throw RunError("cannot make a pipe: {}", std::strerror(errno));
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

std::string last_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text.substr(text.find_last_of("\r\n") + 1);
}

std::string describe_status(int status) {
  if (WIFSIGNALED(status)) return fmt::format("killed by signal {}", WTERMSIG(status));
  return fmt::format("exit status {}", WEXITSTATUS(status));
}

}  // namespace

CommandOutput::CommandOutput(std::string command) : command_(std::move(command)) {
  auto [output, write_output] = make_pipe();
  auto [errors, write_errors] = make_pipe();
  ::fcntl(output.get(), F_SETPIPE_SZ, kPipeBytes);  // fewer context switches; may fail
  output_ = std::move(output);
  errors_ = std::move(errors);
  stopped_ = Descriptor(::eventfd(0, EFD_CLOEXEC));
  SpawnOptions options;
  options.output = write_output.get();
  options.error = write_errors.get();
  process_ = stopped_ ? spawn_shell(command_, options) : -1;
  if (process_ < 0)
    throw RunError("cannot run {}: {}", quote(command_, kMostShown), std::strerror(errno));
}

CommandOutput::~CommandOutput() {
  stop();
  if (process_ > 0) reap();
}

void CommandOutput::stop() {
  const std::lock_guard lock(mutex_);
  if (process_ > 0) ::kill(-process_, SIGKILL);
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(stopped_.get(), &one, sizeof one);
}

/// False after `stop`. Also reads standard error, whose full pipe would block the command.
bool CommandOutput::wait_for_output() {
  while (true) {
    std::array<pollfd, 3> events = {
        {{output_.get(), POLLIN, 0}, {errors_.get(), POLLIN, 0}, {stopped_.get(), POLLIN, 0}}};
    retry_interrupted([&] { return ::poll(events.data(), events.size(), -1); });
    if (events[2].revents != 0) return false;
    if (events[1].revents != 0) read_errors();
    if (events[0].revents != 0) return true;
  }
}

void CommandOutput::read_errors() {
  std::array<char, kMostSaid> piece{};
  const ssize_t got =
      retry_interrupted([&] { return ::read(errors_.get(), piece.data(), piece.size()); });
  if (got <= 0) {
    errors_ = Descriptor();  // poll ignores -1
    return;
  }
  said_.append(piece.data(), static_cast<size_t>(got));
  if (said_.size() > kMostSaid) said_.erase(0, said_.size() - kMostSaid);
}

size_t CommandOutput::read(std::span<char> bytes) {
  size_t done = 0;
  while (done < bytes.size() && wait_for_output()) {
    const ssize_t got = retry_interrupted(
        [&] { return ::read(output_.get(), bytes.data() + done, bytes.size() - done); });
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

CommandEnd CommandOutput::finish() {
  output_ = Descriptor();
  // Waits for the command, not for the end of standard error: processes that it left in the
  // background may hold that open.
  const Descriptor ended(static_cast<int>(::syscall(SYS_pidfd_open, process_, 0)));
  while (errors_ || ended) {
    std::array<pollfd, 3> events = {
        {{errors_.get(), POLLIN, 0}, {stopped_.get(), POLLIN, 0}, {ended.get(), POLLIN, 0}}};
    retry_interrupted([&] { return ::poll(events.data(), events.size(), -1); });
    if (events[1].revents != 0 || events[2].revents != 0) break;
    read_errors();
  }
  if (errors_) ::fcntl(errors_.get(), F_SETFL, O_NONBLOCK);
  while (errors_) read_errors();
  const int status = reap();
  const auto said = last_line(said_);
  return {status == 0,
          describe_status(status) + (said.empty() ? "" : ", " + quote(said, kMostShown))};
}

int CommandOutput::reap() {
  // First without releasing the process's number, which stop() may still signal.
  siginfo_t info{};
  retry_interrupted(
      [&] { return ::waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOWAIT); });
  const std::lock_guard lock(mutex_);
  ::kill(-process_, SIGKILL);  // what it left in the background
  int status = 0;
  retry_interrupted([&] { return ::waitpid(process_, &status, 0); });
  process_ = -1;
  return status;
}

}  // namespace nsvq
