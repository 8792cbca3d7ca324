#pragma once

#include <string>
#include <vector>

namespace nsvq {

/// Starts `count` processes of this program on this machine with `words` as arguments, each with
/// the variables that torchrun sets, and waits for them. Signals that ask to stop or for a
/// checkpoint are passed on. When one fails, the others end by themselves; those that do not within
/// half a minute are killed. Returns rank 0's exit code or, if that is 0, the first other one.
int launch_processes(int count, const std::vector<std::string>& words);

}  // namespace nsvq
