#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace nsvq {

/// Whether a file that begins so is compressed by gzip or Zstandard.
bool is_compressed(std::span<const std::byte> first_bytes);

/// Decompresses the file behind `descriptor` into a nameless temporary file (in $TMPDIR, else
/// /tmp), which is gone when it is closed, and returns its descriptor. More than `kMostExpansion`
/// times the compressed bytes, and 64 MiB, is refused: few bytes can expand without end. `path` is
/// for errors. Throws UserError for damaged data, RunError where there is no room.
int decompress_to_temporary(int descriptor, const std::filesystem::path& path);

inline constexpr int kMostExpansion = 200;

}  // namespace nsvq
