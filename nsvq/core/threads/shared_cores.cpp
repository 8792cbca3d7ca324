#include "nsvq/core/threads/shared_cores.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <random>
#include <system_error>
#include <vector>

#include "nsvq/core/device.h"
#include "nsvq/core/text.h"
#include "nsvq/core/threads/parallel.h"

namespace nsvq {

namespace {

constexpr std::chrono::milliseconds kInterval(500);
constexpr int kMostTeams = 16;
/// A core has room where it is busy for less of the time, and is shared where others use more.
constexpr double kRoom = 0.7, kShared = 0.3;

/// Sleeps until `stop`, at most `duration`; whether it was stopped.
bool sleep(const std::stop_token& stop, std::chrono::milliseconds duration) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any().wait_for(lock, stop, duration, [] { return false; });
  return stop.stop_requested();
}

void sleep(const std::stop_token& stop) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any().wait(lock, stop, [] { return false; });
}

/// A team of OpenMP threads without work. libgomp lets waiting threads sleep at once, not after
/// milliseconds of spinning, while more of its threads exist than cores.
std::jthread idle_team() {
  return std::jthread([](const std::stop_token& stop) {
    parallel_tasks(at::get_num_threads(), [](int64_t) {});
    sleep(stop);
  });
}

std::atomic<int> threads_set{0};

/// With a GPU threads start its work and read ahead, and do not wait for one another.
bool computes_on_gpu() {
  static const bool gpu = gpu_count() > 0;
  return gpu;
}

/// Does what is chosen: how waiting threads wait, and where all run.
class SharingThreads {
 public:
  void begin(const CoreSharing& sharing) {
    while (std::ssize(idle_teams_) < sharing.idle_teams) idle_teams_.push_back(idle_team());
    binding_.keep_to(sharing.core);
    if (sharing.idle_teams == 0) idle_teams_.clear();
  }

 private:
  std::vector<std::jthread> idle_teams_;
  CoreBinding binding_;  // ends before the teams do: on one core spinning threads stand still
};

void watch(const std::stop_token& stop) {
  CoreUseMeter meter;
  std::minstd_rand random(static_cast<unsigned>(::getpid()));
  std::uniform_real_distribution<double> draw;
  CoreSharing sharing;
  SharingThreads threads;
  while (!sleep(stop, kInterval)) {
    try {
      sharing = choose_sharing(meter.since_last(), compute_threads(), sharing, draw(random));
      if (sharing.core && computes_on_gpu()) sharing.core = std::nullopt;
      threads.begin(sharing);
    } catch (const std::exception&) {
      // Without memory or threads for that all stays as it is.
    }
  }
}

/// The cores that `threads` threads have where all who want to compute get the same.
double fair_part(int cores, int threads, double others) {
  return cores * threads / (threads + others);
}

/// The core to keep to next, now that it is `now`.
int choose_core(const CoreUse& use, std::optional<int> now, double draw) {
  if (!now || !use.busy.contains(*now)) {
    const auto at = static_cast<std::ptrdiff_t>(draw * use.cores());
    return std::next(use.busy.begin(), std::min<std::ptrdiff_t>(at, use.cores() - 1))->first;
  }
  const bool shared = use.busy.at(*now) - use.own > kShared;
  auto elsewhere = use.busy;
  elsewhere.erase(*now);
  if (!shared || elsewhere.empty()) return *now;
  const auto least = std::ranges::min_element(
      elsewhere, {}, [](const auto& core_and_use) { return core_and_use.second; });
  // Those on a core do not all leave it; without room elsewhere each has company in turn.
  const double chance = least->second < kRoom ? 0.5 : 0.25;
  return draw < chance ? least->first : *now;
}

cpu_set_t only(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  return set;
}

}  // namespace

void set_compute_threads(int threads) {
  at::set_num_threads(threads);
  threads_set = threads;
}

int compute_threads() {
  const int threads = threads_set;
  return threads > 0 ? threads : at::get_num_threads();
}

CoreSharing choose_sharing(const CoreUse& use, int threads, const CoreSharing& until_now,
                           double draw) {
  if (use.cores() == 0) return {};  // not known
  const double others = use.others();
  if (!too_few_cores(use.cores(), threads, others, until_now.idle_teams > 0)) return {};
  CoreSharing next{.idle_teams = std::min(teams_above(use.cores(), threads), kMostTeams)};
  if (fair_part(use.cores(), threads, others) < 2) {
    next.core = choose_core(use, until_now.core, draw);
  }
  return next;
}

void CoreBinding::keep_to(std::optional<int> core) {
  if (core == core_) return;
  const cpu_set_t from = core_ ? only(*core_) : own_cores();
  const cpu_set_t to = core ? only(*core) : own_cores();
  core_ = core;
  std::error_code error;  // a thread may end meanwhile
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", error)) {
    const auto thread =
        static_cast<pid_t>(parse_decimal(entry.path().filename().string()).value_or(0));
    cpu_set_t present;
    if (thread == 0 || ::sched_getaffinity(thread, sizeof present, &present) != 0) continue;
    if (CPU_EQUAL(&present, &from)) ::sched_setaffinity(thread, sizeof to, &to);
  }
}

std::string describe_shared_cores(const CoreUse& use, int threads) {
  const auto sharing = choose_sharing(use, threads, {}, 0);
  if (sharing.idle_teams == 0) return "";
  return fmt::format("other processes use {:.1f} of {} cores: threads sleep while they wait{}",
                     use.others(), use.cores(), sharing.core ? " and keep to one core" : "");
}

SharedCores::SharedCores() {
  own_cores();
  // Signals stay with the threads that wait for them.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  watcher_ = std::jthread(watch);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

bool too_few_cores(int cores, int threads, double others, bool until_now) {
  if (threads < 2) return false;
  return others + threads - cores > (until_now ? 0.15 : 0.3);
}

int teams_above(int cores, int threads) {
  if (threads < 2) return 0;
  return std::max(1, (cores - threads) / (threads - 1) + 1);
}

}  // namespace nsvq
