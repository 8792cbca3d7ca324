#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

namespace nsvq {

/// All that comes from a file, a pipe or a device up to its end: for what a user names in order to
/// have it read, such as /dev/stdin or <(command). What lies in a folder is read by read_file
/// (nsvq/io/files/file.h), which waits for no pipe. Throws UserError naming the path.
std::vector<std::byte> read_stream(const std::filesystem::path& path);

/// The rest of an open file; errors name `path`. Throws UserError.
std::vector<std::byte> read_to_end(int descriptor, const std::filesystem::path& path);

}  // namespace nsvq
