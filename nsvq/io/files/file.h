#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nsvq {

/// The whole file. Throws UserError naming the path.
std::vector<std::byte> read_file(const std::filesystem::path& path);
std::string read_text(const std::filesystem::path& path);

/// Writes to a temporary name beside `path`, syncs, and renames: readers see the old file or the
/// new one, never half of it. Missing folders are made. Throws RunError (disk full, no permission).
void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_text(const std::filesystem::path& path, std::string_view text);

enum class Sync { no, yes };

/// Writes to `temporary`, on the file system of `path`, and renames. A temporary name that is
/// always the same leaves at most one file behind when processes are killed. Without a sync a kill
/// still leaves the old file or the new one, but a power cut may leave an empty one. Throws
/// RunError.
void replace_file(const std::filesystem::path& path, const std::filesystem::path& temporary,
                  std::span<const std::byte> bytes, Sync sync);
/// Waits until all that was written to the file system of `folder` is on the disk: one call in
/// place of an fsync for each of many files. Throws RunError.
void sync_file_system(const std::filesystem::path& folder);

/// Appends whole lines (JSON lines, CSV) with one write each.
void append_line(const std::filesystem::path& path, std::string_view line);

}  // namespace nsvq
