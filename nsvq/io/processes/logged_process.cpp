#include "nsvq/io/processes/logged_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/files/descriptor.h"
#include "nsvq/io/processes/command_guard.h"
#include "nsvq/io/processes/spawn.h"

namespace nsvq {

namespace {

namespace fs = std::filesystem;

/// The end of a log, in which the last line says why a command failed.
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

/// The words as those of a shell that registers and then becomes the program.
std::vector<std::string> registering(const std::string& program,
                                     const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {
      "-c", with_registration("exec \"$@\"", SpawnOptions::kExtraDescriptor), "sh", program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

}  // namespace

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
  options.extra = guard_descriptor();
  process_ = options.extra < 0 ? spawn_program(program, arguments, options)
                               : spawn_program("/bin/sh", registering(program, arguments), options);
  if (process_ < 0) throw RunError("cannot start {}: {}", program, std::strerror(errno));
}

std::optional<int> LoggedProcess::status() const {
  int status = 0;
  if (::waitpid(process_, &status, WNOHANG) != process_) return std::nullopt;
  forget_group(process_);
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

}  // namespace nsvq
