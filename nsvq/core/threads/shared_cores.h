#pragma once

#include <string>
#include <thread>

#include "nsvq/core/threads/core_use.h"

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

/// Sets how many threads torch computes with, as at::set_num_threads.
void set_compute_threads(int threads);
/// The number set last, or torch's own; for any thread, where at::get_num_threads tells the number
/// of the calling one.
int compute_threads();

/// "other processes use 1.6 of 2 cores: ..."; empty where `threads` threads have cores of their
/// own.
std::string describe_shared_cores(const CoreUse& use, int threads);

/// Whether cores are too few for `threads` threads beside other processes that use `others` cores.
/// The limit is lower if they were too few until now.
bool too_few_cores(int cores, int threads, double others, bool until_now);

/// How many teams of `threads` threads, one of them in use, it takes until there are more threads
/// than cores; 0 if teams of one thread never are.
int teams_above(int cores, int threads);

}  // namespace nsvq
