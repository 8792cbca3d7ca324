#pragma once

#include <string>
#include <vector>

namespace nsvq {

/// The GPUs that this process was given, by the names of CUDA_VISIBLE_DEVICES or their numbers.
std::vector<std::string> gpu_names();

/// Where a process can run, as a variable of its environment ("CUDA_VISIBLE_DEVICES=0"): one slot
/// for each GPU of this machine, or `jobs` over them (0: one a GPU); without a GPU `jobs` slots (0:
/// one) that share the cores.
std::vector<std::string> slot_environments(int jobs);

/// Cores for each of `jobs` processes (0: one) where there is no GPU; 0, all, with one.
int threads_of_a_job(int jobs);

}  // namespace nsvq
