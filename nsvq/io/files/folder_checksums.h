#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace nsvq {

/// Writes manifest.json into a folder: length and CRC-32C of every other file in it.
void write_checksums(const std::filesystem::path& folder);

/// What is wrong with a folder by its manifest (a file missing, of another length, of other bytes),
/// or nothing.
std::optional<std::string> folder_damage(const std::filesystem::path& folder);

/// Likewise by lengths alone: bytes that have changed are not found, but nothing is read.
std::optional<std::string> folder_cut_short(const std::filesystem::path& folder);

/// Likewise with one file, by the manifest beside it; nothing if none is there or names it.
std::optional<std::string> file_damage(const std::filesystem::path& file);
/// How a file that is known to be whole differs from the one that was written, by the manifest
/// beside it; a manifest that cannot be read says nothing.
std::optional<std::string> file_replaced(const std::filesystem::path& file);

}  // namespace nsvq
