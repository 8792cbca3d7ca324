#include "nsvq/core/threads/core_use.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

namespace nsvq {

const cpu_set_t& own_cores() {
  static const cpu_set_t cores = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    ::sched_getaffinity(0, sizeof set, &set);
    return set;
  }();
  return cores;
}

double CoreUse::others() const {
  double all = 0;
  for (const auto& [core, use] : busy) all += use;
  return std::max(all - own, 0.0);
}

CoreUseMeter::CoreUseMeter() : before_(now()) {}

CoreUse CoreUseMeter::since_last() {
  const auto after = now();
  const double passed = std::chrono::duration<double>(after.at - before_.at).count();
  CoreUse use{.own = (after.own - before_.own) / passed};
  for (const auto& [core, seconds] : after.busy) {
    use.busy[core] = std::clamp((seconds - before_.busy[core]) / passed, 0.0, 1.0);
  }
  before_ = after;
  return use;
}

CoreUseMeter::Seconds CoreUseMeter::now() {
  std::ifstream file("/proc/stat");
  const std::string stat{std::istreambuf_iterator<char>(file), {}};
  Seconds seconds;
  for (const auto& [core, ticks] : busy_ticks(stat)) {
    if (!CPU_ISSET(core, &own_cores())) continue;
    seconds.busy[core] = ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
  }
  timespec own{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
  seconds.own = static_cast<double>(own.tv_sec) + static_cast<double>(own.tv_nsec) * 1e-9;
  seconds.at = std::chrono::steady_clock::now();
  return seconds;
}

std::map<int, double> busy_ticks(std::string_view stat) {
  std::map<int, double> busy;
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
    if (!core) continue;
    double& ticks = busy[static_cast<int>(*core)];
    // user, nice, system, idle, iowait, irq, softirq, steal; guests' time is within user and nice
    for (int column = 0; column < 8; ++column) {
      const auto number = next();
      if (!number) break;
      if (column != 3 && column != 4) ticks += static_cast<double>(*number);
    }
  }
  return busy;
}

}  // namespace nsvq
