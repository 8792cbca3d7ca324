#pragma once

#include <string>

namespace nsvq {

/// This process's number among those started together, and how they meet, by the environment.
struct Launch {
  int rank = 0;
  int size = 1;
  int local_rank = 0;   ///< among the processes of this machine: the number of its GPU
  int local_size = 1;   ///< processes on this machine
  std::string address;  ///< host of the store through which the ranks meet
  int port = 0;
  bool agent_store = false;  ///< the launcher holds the store, not rank 0
  int attempt = 0;           ///< restarts by the launcher before this one

  bool alone() const { return size == 1; }
};

/// Reads the variables of torchrun (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT), else
/// of SLURM's srun (SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, ...); without either this process is
/// alone. Throws UserError naming the variable that is missing or no number.
Launch launch_from_environment();

}  // namespace nsvq
