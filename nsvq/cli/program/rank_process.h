#pragma once

#include <functional>
#include <memory>
#include <string>

#include "nsvq/dist/group.h"

namespace nsvq {

/// Joins the processes that a launcher started with this one. Only rank 0 prints from then on. When
/// another rank is lost, this process ends with exit code 3 and a line that says which, with
/// `advice` behind it.
std::shared_ptr<Group> join_ranks(const Launch& launch, const GroupOptions& options,
                                  const std::string& advice);

/// Does `work` and tells the other ranks why, where it fails.
void work_as_rank(Group& group, const std::function<void()>& work);

/// Starts the command of this process once for each of `count` GPUs of this machine (with device
/// cpu, as often), without its --gpus, and throws their exit code. Throws UserError where there are
/// fewer GPUs.
[[noreturn]] void start_on_gpus(int count, const std::string& device);

}  // namespace nsvq
