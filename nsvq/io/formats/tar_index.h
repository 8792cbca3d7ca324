#pragma once

#include <filesystem>
#include <vector>

#include "nsvq/io/formats/tar.h"

namespace nsvq {

// The contents of a set of tar archives, kept in the index cache (index_cache.h) in one file a set,
// so that the archives need not be scanned another time.

/// What is known of each archive, in the same order; nothing of those that were never scanned.
std::vector<TarContents> load_tar_index(const std::vector<std::filesystem::path>& archives);

/// Keeps the contents of archives, which are open, unless all of them came from the index.
void save_tar_index(const std::vector<std::filesystem::path>& archives,
                    const std::vector<TarReader>& readers);

}  // namespace nsvq
