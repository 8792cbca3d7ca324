#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nsvq/dist/group.h"

namespace nsvq {

/// Joins the processes that a launcher started with this one. Only rank 0 prints from then on. When
/// a rank is lost, this process ends with exit code 3 and a line that names it, followed by
/// `advice`.
std::shared_ptr<Group> join_ranks(const Launch& launch, const GroupOptions& options,
                                  const std::string& advice);

/// Does `work`; if it fails, tells the other ranks why.
void work_as_rank(Group& group, const std::function<void()>& work);

/// Starts the command of this process, without its --gpus, once for each of `count` GPUs of this
/// machine (with device cpu, `count` times) and throws their exit code. Throws UserError where
/// there are fewer GPUs.
[[noreturn]] void start_on_gpus(int count, const std::string& device);

/// Starts `count` processes of this program on this machine with `words` as arguments, each with
/// the variables that torchrun sets, and waits for them. Signals that ask to stop or for a
/// checkpoint are passed on. When one fails, the others end by themselves; those that do not within
/// half a minute are killed. Returns rank 0's exit code or, if that is 0, the first other one.
int launch_processes(int count, const std::vector<std::string>& words);

}  // namespace nsvq
