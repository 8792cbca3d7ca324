#include "nsvq/core/threads/shared_cores.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <iterator>
#include <mutex>
#include <vector>

#include "nsvq/core/threads/parallel.h"

namespace nsvq {

namespace {

constexpr std::chrono::milliseconds kInterval(500);
constexpr int kMostTeams = 16;

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

/// The teams that it takes until waiting threads sleep; 0 where they have cores of their own.
int teams_needed(const CoreUse& use, int threads, bool until_now) {
  if (use.cores() == 0) return 0;  // not known
  if (!too_few_cores(use.cores(), threads, use.others(), until_now)) return 0;
  return std::min(teams_above(use.cores(), threads), kMostTeams);
}

void watch(const std::stop_token& stop) {
  CoreUseMeter meter;
  std::vector<std::jthread> idle_teams;
  while (!sleep(stop, kInterval)) {
    try {
      const int teams = teams_needed(meter.since_last(), compute_threads(), !idle_teams.empty());
      if (teams == 0) idle_teams.clear();
      while (std::ssize(idle_teams) < teams) idle_teams.push_back(idle_team());
    } catch (const std::exception&) {
      // Without memory or threads for that all stays as it is.
    }
  }
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

std::string describe_shared_cores(const CoreUse& use, int threads) {
  if (teams_needed(use, threads, /*until_now=*/false) == 0) return "";
  return fmt::format("other processes use {:.1f} of {} cores: threads sleep while they wait",
                     use.others(), use.cores());
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
