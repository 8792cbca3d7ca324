#pragma once

#include <sched.h>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

namespace nsvq {

/// While it lives, watches whether other processes need the cores that this one computes on.
///
/// Threads of OpenMP's runtime spin while they wait for one another. That is fastest on cores of
/// their own; where other processes run on the cores too, a spinning thread takes time from the
/// thread that it waits for. There the threads are made to sleep while they wait. Work is divided
/// among as many threads either way, so results do not depend on it.
class SharedCores {
 public:
  SharedCores();

 private:
  std::jthread watcher_;
};

/// CPU time that others than this process take on the cores that it may use.
class OtherProcesses {
 public:
  OtherProcesses();

  int cores() const { return CPU_COUNT(&usable_); }  ///< that this process may use
  /// Cores that the others used since the last call, or since the object was made, on average.
  double cores_used();

 private:
  cpu_set_t usable_{};
  std::chrono::steady_clock::time_point before_;
  double others_ = 0;  ///< seconds until then
};

/// "other processes use 1.6 of 2 cores: ..."; empty where `threads` threads have cores of their
/// own.
std::string describe_shared_cores(int cores, int threads, double others);

/// Clock ticks that cores were busy with any process, by the text of /proc/stat; only cores that
/// `counts` is true for.
double busy_ticks(std::string_view stat, const std::function<bool(int)>& counts);

/// Whether cores are too few for `threads` threads beside other processes that use `others` cores.
/// The limit is lower if they were too few until now.
bool too_few_cores(int cores, int threads, double others, bool until_now);

/// How many teams of `threads` threads, one of them in use, it takes until there are more threads
/// than cores; 0 if teams of one thread never are.
int teams_above(int cores, int threads);

}  // namespace nsvq
