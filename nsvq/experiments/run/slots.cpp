#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "nsvq/core/device.h"
#include "nsvq/experiments/run/scheduler.h"

namespace nsvq {

std::vector<std::string> gpu_names() {
  const int gpus = gpu_count();
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  std::istringstream list(visible ? visible : "");
  std::vector<std::string> names;
  for (std::string name; std::getline(list, name, ',');) names.push_back(name);
  for (auto i = static_cast<int>(names.size()); i < gpus; ++i) names.push_back(std::to_string(i));
  names.resize(static_cast<size_t>(gpus));
  return names;
}

std::vector<std::string> slot_environments(int jobs) {
  const int gpus = gpu_count();
  // Threads that spin while they wait use up the cores of other jobs.
  if (gpus == 0) return std::vector<std::string>(std::max(jobs, 1), "OMP_WAIT_POLICY=passive");
  const auto names = gpu_names();
  std::vector<std::string> slots;
  for (int i = 0; i < (jobs > 0 ? jobs : gpus); ++i) {
    slots.push_back("CUDA_VISIBLE_DEVICES=" + names[static_cast<size_t>(i % gpus)]);
  }
  return slots;
}

int threads_of_a_job(int jobs) { return gpu_count() > 0 ? 0 : default_threads(jobs); }

}  // namespace nsvq
