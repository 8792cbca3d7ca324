#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace nsvq {

// What was found out about data by reading all of it, kept for the next time. Any process may read
// and write at any time: files appear whole, and one that is damaged counts as missing. The bytes
// come from a folder that others may have written to, so whoever reads them checks every number.

/// $NSVQ_INDEX_CACHE, else `index` in the cache folder; empty if the variable is `off` or there is
/// no cache folder.
std::filesystem::path index_cache_folder();

/// What is kept under the name, if anything.
std::optional<std::vector<std::byte>> read_index(const std::string& name);
/// False where nothing can be kept: a full disk, no permission, no folder.
bool write_index(const std::string& name, std::span<const std::byte> bytes);

/// The name for what `key` (a list of files, a command) identifies: `kind` and a hash.
std::string index_name(const std::string& kind, const std::string& key);

}  // namespace nsvq
