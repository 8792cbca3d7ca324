#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace nsvq {

/// Commands that are run one after the other until nothing is left to do.
struct Job {
  std::string name;
  std::filesystem::path folder;  ///< where log.txt goes
  std::vector<size_t> needs;     ///< jobs that must be finished before
  /// The arguments of the next command of this program; empty once all is done. May throw.
  std::function<std::vector<std::string>()> next;
};

struct JobResult {
  bool finished = false;
  std::string problem;  ///< why it failed, in a line; empty otherwise
};

struct ScheduleOptions {
  std::string program;                    ///< the program to start
  std::vector<std::string> environments;  ///< one a slot: "CUDA_VISIBLE_DEVICES=0 "
  int threads = 0;                        ///< of a process that trains; 0: all cores
  /// Called at the beginning and end of each command with a line for the user.
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

/// Runs jobs as child processes, one a slot at a time, in their order as far as needs allow. A
/// command that fails is run once more, unless its arguments or settings were refused (exit code
/// 2). A job whose need failed fails too; all others go on. When this process is asked to stop
/// (core/interrupt.h), so are the children, and once they have ended Interrupted is thrown. They
/// are killed when this process is.
std::vector<JobResult> run_jobs(const std::vector<Job>& jobs, const ScheduleOptions& options);

/// A slot's environment for each GPU of this machine, or `jobs` slots over them (0: one a GPU);
/// without a GPU `jobs` slots (0: one) that share the cores.
std::vector<std::string> slot_environments(int jobs);

/// Cores for each of `jobs` processes (0: one) where there is no GPU; 0, all, with one.
int threads_of_a_job(int jobs);

}  // namespace nsvq
