#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsvq/io/tar.h"

namespace nsvq {

/// The regular files in an open archive of `file_size` bytes, by its headers (USTAR, GNU long
/// names, PAX path and size records). Throws UserError calling the archive `path` if it is
/// truncated or corrupt.
std::vector<TarEntry> read_tar_headers(const std::string& path, int descriptor, int64_t file_size);

}  // namespace nsvq
