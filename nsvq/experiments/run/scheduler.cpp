#include "nsvq/experiments/run/scheduler.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <span>
#include <sstream>
#include <thread>
#include <utility>

#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/io/processes/spawn.h"

namespace nsvq {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostAttempts = 2;
constexpr int kRefused = 2;  ///< exit code for wrong arguments and settings: not run once more
constexpr std::chrono::seconds kGrace(60);

struct Child {
  size_t job = 0;
  size_t slot = 0;
  LoggedProcess process;
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
    bool left = false;                             ///< not to be begun: not wanted, or no time
    int attempts = 0;                              ///< to run the present command
    std::vector<std::string> last_words;           ///< the command before
    std::optional<std::vector<std::string>> next;  ///< a command that has not been started
  };

  bool has_ended(size_t job) const {
    return results_[job].finished || !results_[job].problem.empty();
  }

  /// Whether a job can begin or go on now. A job whose needs failed has ended.
  bool is_ready(size_t job) {
    if (states_[job].running || states_[job].left || has_ended(job)) return false;
    for (const size_t need : jobs_[job].needs) {
      if (!results_[need].problem.empty()) {
        results_[job].problem =
            fmt::format("needs {}, which failed: {}", jobs_[need].name, results_[need].problem);
      }
      if (!results_[need].finished) return false;
    }
    return has_tried(job);
  }

  bool has_tried(size_t job) {
    const auto& tries = jobs_[job].tries;
    const auto ended = [&](size_t pilot) { return has_ended(pilot); };
    if (!std::all_of(tries.begin(), tries.end(), ended)) return false;
    const auto finished = [&](size_t pilot) { return results_[pilot].finished; };
    if (tries.empty() || std::any_of(tries.begin(), tries.end(), finished)) return true;
    results_[job].problem = fmt::format("needs one of its pilots, which all failed; {}: {}",
                                        jobs_[tries.front()].name, results_[tries.front()].problem);
    return false;
  }

  void start_what_can() {
    for (size_t job = 0; job < jobs_.size() && !free_.empty(); ++job) {
      if (!is_ready(job)) continue;
      try {
        find_command(job);
        if (!states_[job].next) continue;
        if (must_wait(job)) return;
        advance(job, *std::exchange(states_[job].next, std::nullopt));
      } catch (const std::exception& error) {
        results_[job].problem = error.what();
      }
    }
  }

  /// Whether a job that runs, or this one, is to be alone.
  bool must_wait(size_t job) const {
    return !children_.empty() && (jobs_[job].alone || jobs_[children_.front().job].alone);
  }

  /// Finds the job's next command, or notes that there is none to start.
  void find_command(size_t job) {
    auto& state = states_[job];
    if (!state.next) state.next = jobs_[job].next();
    const bool finished = state.next->empty();
    const bool begins = state.last_words.empty();
    results_[job].finished = finished;
    state.left = !finished && begins && (out_of_time() || !jobs_[job].wanted);
    if (finished || state.left) state.next.reset();
  }

  void advance(size_t job, const std::vector<std::string>& words) {
    auto& state = states_[job];
    if (words != state.last_words) {
      state.attempts = 0;
    } else if (state.attempts >= kMostAttempts) {
      throw RunError("nsvq {} ended without an error, but what it was to make is not there",
                     words.front());
    }
    state.last_words = words;
    ++state.attempts;
    start(job, words);
  }

  bool out_of_time() const {
    return options_.minutes > 0 &&
           Clock::now() - began_ >= std::chrono::duration<double, std::ratio<60>>(options_.minutes);
  }

  void start(size_t job, const std::vector<std::string>& words) {
    const size_t slot = free_.back();
    std::vector<std::string> environment;
    if (jobs_[job].gpus > 1) {
      if (!options_.gpus.empty()) environment = {visible_gpus(jobs_[job].gpus)};
    } else if (!options_.environments[slot].empty()) {
      environment = {options_.environments[slot]};
    }
    LoggedProcess process(options_.program, words, environment, jobs_[job].folder / "log.txt");
    free_.pop_back();
    states_[job].running = true;
    options_.say(fmt::format("{}: {} ({})", jobs_[job].name, shown(words), progress()));
    children_.push_back({job, slot, std::move(process)});
  }

  std::string visible_gpus(int count) const {
    const auto some = std::span(options_.gpus).first(std::min<size_t>(count, options_.gpus.size()));
    return fmt::format("CUDA_VISIBLE_DEVICES={}", fmt::join(some, ","));
  }

  /// "3 of 40 done".
  std::string progress() const {
    size_t over = 0, all = 0;
    for (size_t job = 0; job < jobs_.size(); ++job) {
      all += jobs_[job].wanted ? 1 : 0;
      over += jobs_[job].wanted && has_ended(job) ? 1 : 0;
    }
    return fmt::format("{} of {} done", over, all);
  }

  static std::string shown(const std::vector<std::string>& words) {
    const bool two = words.size() > 1 && (words[0] == "diffusion" || words[0] == "generate");
    return two ? words[0] + " " + words[1] : words[0];
  }

  void collect() {
    for (size_t i = 0; i < children_.size();) {
      const auto status = children_[i].process.status();
      if (!status) {
        ++i;
        continue;
      }
      const Child child = std::move(children_[i]);
      children_.erase(children_.begin() + static_cast<ptrdiff_t>(i));
      free_.push_back(child.slot);
      states_[child.job].running = false;
      ended(child, *status);
    }
  }

  void ended(const Child& child, int status) {
    if (status == 0 || interrupted()) return;
    const auto& job = jobs_[child.job];
    const auto reason = child.process.reason(status);
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
    for (const auto& child : children_) child.process.signal(SIGTERM);
    const auto asked = Clock::now();
    while (!children_.empty()) {
      collect();
      if (Clock::now() - asked > kGrace) {
        for (const auto& child : children_) child.process.signal(SIGKILL);
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
  Clock::time_point began_ = Clock::now();
};

}  // namespace

std::vector<JobResult> run_jobs(const std::vector<Job>& jobs, const ScheduleOptions& options) {
  return Scheduler(jobs, options).run();
}

std::vector<std::string> gpu_names() {
  const int gpus = gpu_count();
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  std::istringstream list(visible ? visible : "");
  std::vector<std::string> names;
  for (std::string name; std::getline(list, name, ',');) names.push_back(name);
  for (auto i = static_cast<int>(names.size()); i < gpus; ++i) names.push_back(std::to_string(i));
  names.resize(static_cast<size_t>(gpus));
  return names;
}

std::vector<std::string> slot_environments(int jobs) {
  const int gpus = gpu_count();
  // Threads that spin while they wait use up the cores of other jobs.
  if (gpus == 0) return std::vector<std::string>(std::max(jobs, 1), "OMP_WAIT_POLICY=passive");
  const auto names = gpu_names();
  std::vector<std::string> slots;
  for (int i = 0; i < (jobs > 0 ? jobs : gpus); ++i) {
    slots.push_back("CUDA_VISIBLE_DEVICES=" + names[static_cast<size_t>(i % gpus)]);
  }
  return slots;
}

int threads_of_a_job(int jobs) { return gpu_count() > 0 ? 0 : default_threads(jobs); }

}  // namespace nsvq
