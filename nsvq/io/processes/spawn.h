#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace nsvq {

/// Descriptors of a new process: its standard streams (-1: /dev/null), and `extra` (-1: none) as
/// kExtraDescriptor; it has no others.
struct SpawnOptions {
  enum class Group { new_group, new_session, same };  ///< it leads a group of its own, or not
  static constexpr int kExtraDescriptor = 3;
  int input = -1, output = -1, error = -1, extra = -1;
  Group group = Group::new_group;
  std::vector<std::string> environment = {};  ///< NAME=VALUE over this process's
};

/// Starts a program, looked for in PATH if its name has no slash, with these arguments as they are:
/// no shell reads them. Returns its process; -1 with errno set if that fails.
pid_t spawn_program(const std::string& program, const std::vector<std::string>& arguments,
                    const SpawnOptions& options);

/// Starts `/bin/sh -c command`: for commands that a user wrote for a shell.
pid_t spawn_shell(const std::string& command, const SpawnOptions& options);

}  // namespace nsvq
