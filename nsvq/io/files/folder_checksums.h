#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace nsvq {

/// Writes manifest.json into a folder: length and CRC-32C of every file in it.
void write_checksums(const std::filesystem::path& folder);

/// How a folder differs from its manifest (a file is missing, or its length or bytes differ);
/// nullopt if it is intact.
std::optional<std::string> folder_damage(const std::filesystem::path& folder);

/// folder_damage by lengths alone: reads no file, but does not notice changed bytes.
std::optional<std::string> folder_cut_short(const std::filesystem::path& folder);

/// How a file differs from the manifest beside it; nullopt if it is intact or in no manifest.
std::optional<std::string> file_damage(const std::filesystem::path& file);
/// file_damage for a file that is intact by other evidence: an unreadable manifest is ignored.
std::optional<std::string> file_replaced(const std::filesystem::path& file);

}  // namespace nsvq
