#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace nsvq {

/// Whether a file with these first bytes is compressed by gzip or Zstandard.
bool is_compressed(std::span<const std::byte> first_bytes);

/// Decompresses the file behind `descriptor` into a nameless temporary file (in $TMPDIR, else
/// /tmp), which the system deletes when it is closed, and returns its descriptor. Refuses more than
/// 64 MiB plus `kMostExpansion` times the compressed bytes: few bytes can expand without end.
/// Errors name `path`. Throws UserError for damaged data, RunError if there is no room.
int decompress_to_temporary(int descriptor, const std::filesystem::path& path);

inline constexpr int kMostExpansion = 200;

}  // namespace nsvq
