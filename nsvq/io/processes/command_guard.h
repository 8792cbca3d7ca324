#pragma once

#include <sys/types.h>

#include <string>

namespace nsvq {

// Commands are killed with all that they start when this process ends, however it ends (also by
// SIGKILL): a helper process, a shell that waits for that, does it.

/// Where a command registers the process group that it leads; -1 if there is no helper.
int guard_descriptor();
/// The command with its registration before it, at the descriptor `at`, which it then closes. The
/// helper waits for that, so that no moment is left in which the command is not known.
std::string with_registration(const std::string& command, int at);
/// The group has ended.
void forget_group(pid_t group);

}  // namespace nsvq
