#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <vector>

#include "nsvq/io/formats/tar.h"

namespace nsvq {

/// A command that failed, or whose output is no whole tar archive: it may do better another time.
class CommandFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The contents of the entry at which the reading is.
using ReadContents = std::function<std::vector<std::byte>()>;
/// Takes an entry; false: the rest is not wanted.
using VisitEntry = std::function<bool(const TarEntry& entry, const ReadContents& contents)>;

/// Runs a shell command that writes a tar archive and visits the files in it in order. If all are
/// wanted, the archive must be whole and the command succeed. Throws CommandFailure, in one line
/// with the command, also if it is ended because a stop is requested, and RunError if it cannot be
/// run.
void visit_piped_tar(const std::string& command, const std::stop_token& stop,
                     const VisitEntry& visit);

/// "pipe:COMMAND" on one line, for messages.
std::string shown_command(const std::string& command);

}  // namespace nsvq
