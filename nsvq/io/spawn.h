#pragma once

#include <sys/types.h>

#include <string>

namespace nsvq {

/// Descriptors of a new process: its standard streams (-1: /dev/null), and `extra` (-1: none) as
/// kExtraDescriptor.
struct SpawnOptions {
  enum class Group { new_group, new_session };
  static constexpr int kExtraDescriptor = 3;
  int input = -1, output = -1, error = -1, extra = -1;
  Group group = Group::new_group;
};

/// Starts `/bin/sh -c command` with no other descriptors than these, as the leader of a process
/// group of its own, and returns its process; -1 with errno set if that fails.
pid_t spawn_shell(const std::string& command, const SpawnOptions& options);

}  // namespace nsvq
