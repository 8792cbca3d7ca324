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

/// A command failed or its output is no complete tar archive: worth a retry.
class CommandFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Reads the contents of the current entry.
using ReadContents = std::function<std::vector<std::byte>()>;
/// Called for each entry; returns false to stop.
using VisitEntry = std::function<bool(const TarEntry& entry, const ReadContents& contents)>;

/// Runs a shell command that writes a tar archive and visits the files in it in order. Unless
/// `visit` stops, the archive must be complete and the command succeed. Throws CommandFailure, in
/// one line with the command, also if a requested stop ends it, and RunError if it cannot be run.
void visit_piped_tar(const std::string& command, const std::stop_token& stop,
                     const VisitEntry& visit);

/// "pipe:COMMAND" on one line, for messages.
std::string shown_command(const std::string& command);

}  // namespace nsvq
