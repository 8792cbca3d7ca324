#pragma once

#include <optional>
#include <string>
#include <thread>

#include "nsvq/core/threads/core_use.h"

namespace nsvq {

/// While it lives, watches whether other processes need the cores that this one computes on.
///
/// Threads of OpenMP's runtime spin while they wait for one another. That is fastest on cores of
/// their own; where other processes run on the cores too, a spinning thread takes time from the
/// thread that it waits for. There the threads are made to sleep while they wait; and where a fair
/// share of the cores is less than two, they keep to one core, on which one wakes the other at
/// little cost and none waits for a core. Work is divided among as many threads in all cases, so
/// results do not depend on it.
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

/// What a process does about others on its cores.
struct CoreSharing {
  int idle_teams = 0;            ///< as many as it takes until waiting threads sleep; 0: they spin
  std::optional<int> core = {};  ///< that its threads keep to; none: they use all
};

/// What a process that computes with `threads` threads does next, by the use of the cores while it
/// did `until_now`. Processes that came to keep to one core part again by chance: `draw`, from 0
/// to 1.
CoreSharing choose_sharing(const CoreUse& use, int threads, const CoreSharing& until_now,
                           double draw);

/// Keeps all threads of this process to a core, or lets them use all cores again. Threads that
/// are bound otherwise stay as they are, and new threads are where the one is that starts them.
class CoreBinding {
 public:
  CoreBinding() = default;
  ~CoreBinding() { keep_to(std::nullopt); }
  CoreBinding(const CoreBinding&) = delete;
  CoreBinding& operator=(const CoreBinding&) = delete;

  void keep_to(std::optional<int> core);

 private:
  std::optional<int> core_;
};

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
