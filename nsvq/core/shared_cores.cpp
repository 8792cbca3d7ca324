#include "nsvq/core/shared_cores.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <ctime>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>
#include <vector>

#include "nsvq/core/parallel.h"

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

void watch(const std::stop_token& stop) {
  OtherProcesses others;
  std::vector<std::jthread> idle_teams;
  while (!sleep(stop, kInterval)) {
    const int threads = at::get_num_threads();
    const bool few =
        too_few_cores(others.cores(), threads, others.cores_used(), !idle_teams.empty());
    const int teams = few ? std::min(teams_above(others.cores(), threads), kMostTeams) : 0;
    if (teams == 0) idle_teams.clear();
    while (std::ssize(idle_teams) < teams) idle_teams.push_back(idle_team());
  }
}

}  // namespace

OtherProcesses::OtherProcesses() {
  ::sched_getaffinity(0, sizeof usable_, &usable_);
  cores_used();
}

double OtherProcesses::cores_used() {
  std::ifstream file("/proc/stat");
  const std::string stat{std::istreambuf_iterator<char>(file), {}};
  const auto usable = [this](int core) { return CPU_ISSET(core, &usable_); };
  const double all = busy_ticks(stat, usable) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  timespec own{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
  const double now_others =
      all - static_cast<double>(own.tv_sec) - static_cast<double>(own.tv_nsec) * 1e-9;
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::duration<double> passed = now - before_;
  const double used = (now_others - others_) / passed.count();
  before_ = now;
  others_ = now_others;
  return used;
}

std::string describe_shared_cores(int cores, int threads, double others) {
  if (!too_few_cores(cores, threads, others, /*until_now=*/false)) return "";
  return fmt::format("other processes use {:.1f} of {} cores: threads sleep while they wait",
                     std::min(others, static_cast<double>(cores)), cores);
}

SharedCores::SharedCores() {
  // Signals stay with the threads that wait for them.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  watcher_ = std::jthread(watch);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

double busy_ticks(std::string_view stat, const std::function<bool(int)>& counts) {
  double busy = 0;
  while (!stat.empty()) {
    const auto end = std::min(stat.find('\n'), stat.size());
    auto line = stat.substr(0, end);
    stat.remove_prefix(std::min(end + 1, stat.size()));
    const auto next = [&]() -> std::optional<int64_t> {
      line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
      int64_t number = 0;
      const auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), number);
      line.remove_prefix(static_cast<size_t>(rest - line.data()));
      return error == std::errc() ? std::optional(number) : std::nullopt;
    };
    if (!line.starts_with("cpu")) continue;
    line.remove_prefix(3);
    if (line.starts_with(' ')) continue;  // the sum of all
    const auto core = next();
    if (!core || !counts(static_cast<int>(*core))) continue;
    // user, nice, system, idle, iowait, irq, softirq, steal; guests' time is within user and nice
    for (int column = 0; column < 8; ++column) {
      const auto ticks = next();
      if (!ticks) break;
      if (column != 3 && column != 4) busy += static_cast<double>(*ticks);
    }
  }
  return busy;
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
