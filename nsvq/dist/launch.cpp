#include "nsvq/dist/launch.h"

#include <optional>

#include "nsvq/core/environment.h"
#include "nsvq/core/error.h"

namespace nsvq {

namespace {

/// The variable's value, which fits an int since `most` is one.
std::optional<int> number_if_set(const char* name, int least, int most) {
  return environment_number(name, least, most, "torchrun and srun set it");
}

int number(const char* name, int least, int most) {
  if (const auto value = number_if_set(name, least, most)) return *value;
  throw UserError("{} is not set, though other variables of a launcher are; torchrun sets it",
                  name);
}

int number_or(const char* name, int fallback, int least, int most) {
  return number_if_set(name, least, most).value_or(fallback);
}

constexpr int kMost = 1 << 20;
constexpr int kPorts = 65535;

Launch launched_by_torchrun() {
  Launch launch;
  launch.size = number("WORLD_SIZE", 1, kMost);
  if (launch.alone()) return launch;
  launch.rank = number("RANK", 0, launch.size - 1);
  launch.local_rank = number("LOCAL_RANK", 0, launch.size - 1);
  launch.local_size = number_or("LOCAL_WORLD_SIZE", 1, 1, launch.size);
  const auto address = environment_text("MASTER_ADDR");
  if (!address) throw UserError("MASTER_ADDR is not set, though WORLD_SIZE is; torchrun sets it");
  launch.address = *address;
  launch.port = number("MASTER_PORT", 1, kPorts);
  launch.agent_store = environment_text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  launch.attempt = number_or("TORCHELASTIC_RESTART_COUNT", 0, 0, kMost);
  return launch;
}

/// The first name of a list such as "gpu[003-007,12],login".
std::string first_host(const std::string& list) {
  const auto bracket = list.find('[');
  const auto comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  const auto end = list.find_first_of("-,]", bracket);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1);
}

Launch launched_by_slurm() {
  Launch launch;
  launch.size = number("SLURM_NTASKS", 1, kMost);
  if (launch.alone()) return launch;
  launch.rank = number("SLURM_PROCID", 0, launch.size - 1);
  launch.local_rank = number("SLURM_LOCALID", 0, launch.size - 1);
  const int nodes = number_or("SLURM_NNODES", 1, 1, launch.size);
  launch.local_size = nodes == 1 ? launch.size : 1;
  const auto address = environment_text("MASTER_ADDR"),
             hosts = environment_text("SLURM_STEP_NODELIST"),
             job_hosts = environment_text("SLURM_JOB_NODELIST");
  if (!address && !hosts && !job_hosts) {
    throw UserError("srun gives no SLURM_STEP_NODELIST; set MASTER_ADDR to the first node's name");
  }
  launch.address = address ? *address : first_host(hosts ? *hosts : *job_hosts);
  // Jobs that share a node have different numbers.
  const int job = number_or("SLURM_JOB_ID", 0, 0, 1 << 30);
  launch.port = number_or("MASTER_PORT", 20000 + job % 20000, 1, kPorts);
  launch.attempt = number_or("SLURM_RESTART_COUNT", 0, 0, kMost);
  return launch;
}

}  // namespace

Launch launch_from_environment() {
  if (environment_text("WORLD_SIZE")) return launched_by_torchrun();
  // srun sets them for interactive shells too: only a step of several tasks counts.
  if (environment_text("SLURM_STEP_ID") && environment_text("SLURM_PROCID"))
    return launched_by_slurm();
  return {};
}

}  // namespace nsvq
