#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace nsvq {

/// Commands of this program that are run one after the other until nothing is left to do.
struct Job {
  std::string name;
  std::filesystem::path folder;  ///< where log.txt goes
  std::vector<size_t> needs;     ///< jobs that must be finished before
  std::vector<size_t> tries;     ///< jobs that must have ended before, one of them finished
  /// Arguments of the next command; empty once all is done. May throw.
  std::function<std::vector<std::string>()> next;
  bool wanted = true;  ///< false: what is done of it counts, but nothing is begun
  int gpus = 1;        ///< GPUs that its commands use
  bool alone = false;  ///< nothing else runs beside its commands
};

/// How a job ended. Neither finished nor with a problem: it was not wanted, or there was no time.
struct JobResult {
  bool finished = false;
  std::string problem;  ///< why it failed, in a line; empty if it did not
};

struct ScheduleOptions {
  std::string program;                    ///< the program to start
  std::vector<std::string> environments;  ///< NAME=VALUE, one a slot; "": unchanged
  std::vector<std::string> gpus;          ///< names of GPUs for jobs of several; empty: all
  int threads = 0;                        ///< of a process that trains; 0: all cores
  double minutes = 0;                     ///< no job begins later; 0: no limit
  /// Prints a line for the user at the beginning and end of each command.
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

/// Runs jobs as child processes, one a slot at a time, in their order as far as needs allow. A job
/// that is to be alone waits until no other runs, and those behind it wait for it. A command that
/// fails is run once more, unless its arguments or settings were refused (exit code 2). A job fails
/// too if one of its needs or all of its tries have failed; the rest goes on. A job that has begun
/// may end later than `minutes`. When this process is asked to stop (core/interrupt.h), so are the
/// children; once they have ended, Interrupted is thrown. They are killed when this process is.
std::vector<JobResult> run_jobs(const std::vector<Job>& jobs, const ScheduleOptions& options);

/// Names of the GPUs that this process was given: those of CUDA_VISIBLE_DEVICES or their numbers.
std::vector<std::string> gpu_names();

/// A variable of the environment for each slot ("CUDA_VISIBLE_DEVICES=0"): one slot for each GPU of
/// this machine, or `jobs` over them (0: one a GPU); without a GPU `jobs` slots (0: one) that share
/// the cores.
std::vector<std::string> slot_environments(int jobs);

/// Cores for each of `jobs` processes (0: one) where there is no GPU; 0, all, with one.
int threads_of_a_job(int jobs);

}  // namespace nsvq
