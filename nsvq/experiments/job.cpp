#include "nsvq/experiments/job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>

#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/printable.h"
#include "nsvq/core/shell_word.h"
#include "nsvq/io/command_guard.h"
#include "nsvq/io/descriptor.h"
#include "nsvq/io/spawn.h"

namespace nsvq {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kMostAttempts = 2;
constexpr int kRefused = 2;  ///< exit code for arguments and settings: a second time is the same
constexpr std::chrono::seconds kGrace(60);

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

struct Child {
  size_t job = 0;
  size_t slot = 0;
  pid_t process = -1;
  uintmax_t log_from = 0;
  std::vector<std::string> words;
  Clock::time_point started;
};

class Scheduler {
 public:
  Scheduler(const std::vector<Job>& jobs, const ScheduleOptions& options)
      : jobs_(jobs), options_(options), results_(jobs.size()), states_(jobs.size()) {
    for (size_t slot = options.environments.size(); slot > 0; --slot) free_.push_back(slot - 1);
  }

  std::vector<JobResult> run() {
    while (true) {
      collect();
      if (interrupted()) stop_all();
      start_what_can();
      if (children_.empty()) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return std::move(results_);
  }

 private:
  struct State {
    bool running = false;
    int attempts = 0;                     ///< of the present command
    std::vector<std::string> last_words;  ///< of the command before
  };

  bool is_over(size_t job) const {
    return results_[job].finished || !results_[job].problem.empty();
  }

  /// Whether a job can begin or go on now. One whose needs failed is over.
  bool is_ready(size_t job) {
    if (states_[job].running || is_over(job)) return false;
    for (const size_t need : jobs_[job].needs) {
      if (!results_[need].problem.empty()) {
        results_[job].problem =
            fmt::format("needs {}, which failed: {}", jobs_[need].name, results_[need].problem);
      }
      if (!results_[need].finished) return false;
    }
    return true;
  }

  void start_what_can() {
    for (size_t job = 0; job < jobs_.size() && !free_.empty(); ++job) {
      if (!is_ready(job)) continue;
      try {
        advance(job);
      } catch (const std::exception& error) {
        results_[job].problem = error.what();
      }
    }
  }

  /// Starts the job's next command, or notes that there is none.
  void advance(size_t job) {
    auto words = jobs_[job].next();
    auto& state = states_[job];
    if (words.empty()) {
      results_[job].finished = true;
      return;
    }
    if (words != state.last_words) {
      state.attempts = 0;
    } else if (state.attempts >= kMostAttempts) {
      throw RunError("nsvq {} ended without an error, but what it was to make is not there",
                     words.front());
    }
    state.last_words = words;
    ++state.attempts;
    start(job, std::move(words));
  }

  void start(size_t job, std::vector<std::string> words) {
    fs::create_directories(jobs_[job].folder);
    const auto log = jobs_[job].folder / "log.txt";
    const Descriptor file(
        ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (!file) throw RunError("{}: {}", log.string(), std::strerror(errno));
    std::error_code ignored;
    Child child{job, free_.back(), -1, fs::file_size(log, ignored), words, Clock::now()};
    std::string command =
        options_.environments[child.slot] + "exec " + shell_word(options_.program);
    for (const auto& word : words) command += " " + shell_word(word);
    SpawnOptions spawn;
    spawn.output = spawn.error = file.get();
    spawn.extra = guard_descriptor();
    if (spawn.extra >= 0) command = with_registration(command, SpawnOptions::kExtraDescriptor);
    child.process = spawn_shell(command, spawn);
    if (child.process < 0) throw RunError("cannot start a process: {}", std::strerror(errno));
    free_.pop_back();
    states_[job].running = true;
    options_.say(fmt::format("{}: {}", jobs_[job].name, shown(words)));
    children_.push_back(std::move(child));
  }

  static std::string shown(const std::vector<std::string>& words) {
    return words.size() > 1 && words[0] == "diffusion" ? "diffusion " + words[1] : words[0];
  }

  void collect() {
    for (size_t i = 0; i < children_.size();) {
      int status = 0;
      if (::waitpid(children_[i].process, &status, WNOHANG) != children_[i].process) {
        ++i;
        continue;
      }
      const Child child = std::move(children_[i]);
      children_.erase(children_.begin() + static_cast<ptrdiff_t>(i));
      forget_group(child.process);
      free_.push_back(child.slot);
      states_[child.job].running = false;
      ended(child, status);
    }
  }

  void ended(const Child& child, int status) {
    if (status == 0 || interrupted()) return;
    const auto& job = jobs_[child.job];
    auto reason = last_message(job.folder / "log.txt", child.log_from);
    if (WIFSIGNALED(status)) {
      reason = fmt::format("killed by signal {}{}", WTERMSIG(status),
                           WTERMSIG(status) == SIGKILL ? " (too little memory?)" : "");
    } else if (reason.empty()) {
      reason = fmt::format("ended with exit code {}", WEXITSTATUS(status));
    }
    const bool refused = WIFEXITED(status) && WEXITSTATUS(status) == kRefused;
    if (refused || states_[child.job].attempts >= kMostAttempts) {
      results_[child.job].problem = reason;
      options_.say(fmt::format("{}: failed: {}", job.name, reason));
    } else {
      options_.say(fmt::format("{}: once more, after: {}", job.name, reason));
    }
  }

  /// Passes the wish to stop on and waits: children that train write a checkpoint.
  [[noreturn]] void stop_all() {
    for (const auto& child : children_) ::kill(-child.process, SIGTERM);
    const auto asked = Clock::now();
    while (!children_.empty()) {
      collect();
      if (Clock::now() - asked > kGrace) {
        for (const auto& child : children_) ::kill(-child.process, SIGKILL);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    throw Interrupted();
  }

  const std::vector<Job>& jobs_;
  const ScheduleOptions& options_;
  std::vector<JobResult> results_;
  std::vector<State> states_;
  std::vector<size_t> free_;
  std::vector<Child> children_;
};

}  // namespace

std::vector<JobResult> run_jobs(const std::vector<Job>& jobs, const ScheduleOptions& options) {
  return Scheduler(jobs, options).run();
}

int threads_of_a_job(int jobs) {
  return gpu_count() > 0 ? 0 : std::max(usable_cores() / std::max(jobs, 1), 1);
}

std::vector<std::string> slot_environments(int jobs) {
  const int gpus = gpu_count();
  std::vector<std::string> slots;
  // Threads that spin while they wait take the cores from other jobs.
  if (gpus == 0) return std::vector<std::string>(std::max(jobs, 1), "OMP_WAIT_POLICY=passive ");
  // The GPUs that this process was given, by whatever names.
  std::vector<std::string> names;
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  std::istringstream list(visible ? visible : "");
  for (std::string name; std::getline(list, name, ',');) names.push_back(name);
  const int count = jobs > 0 ? jobs : gpus;
  for (int i = 0; i < count; ++i) {
    const auto gpu = static_cast<size_t>(i % gpus);
    const auto name = gpu < names.size() ? names[gpu] : std::to_string(gpu);
    slots.push_back(fmt::format("CUDA_VISIBLE_DEVICES={} ", shell_word(name)));
  }
  return slots;
}

}  // namespace nsvq
