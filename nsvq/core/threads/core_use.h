#pragma once

#include <sched.h>

#include <chrono>
#include <map>
#include <string_view>

namespace nsvq {

/// The cores that this process may use, as it was started.
const cpu_set_t& own_cores();

/// How busy cores were, each from 0 to 1, and how many of them this process kept busy.
struct CoreUse {
  std::map<int, double> busy = {};  ///< by the core's number
  double own = 0;

  int cores() const { return static_cast<int>(busy.size()); }
  double others() const;  ///< cores that other processes used
};

/// Measures the use of own_cores() since the last call, or since it was made.
class CoreUseMeter {
 public:
  CoreUseMeter();
  CoreUse since_last();

 private:
  struct Seconds {
    std::map<int, double> busy;
    double own = 0;
    std::chrono::steady_clock::time_point at;
  };
  static Seconds now();

  Seconds before_;
};

/// Clock ticks that each core was busy with any process, by the text of /proc/stat.
std::map<int, double> busy_ticks(std::string_view stat);

}  // namespace nsvq
