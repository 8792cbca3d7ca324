#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace nsvq {

/// Writes manifest.json into a folder: length and CRC-32C of every other file in it.
void write_manifest(const std::filesystem::path& folder);

/// What is wrong with a folder by its manifest (a file missing, of another length, of other bytes),
/// or nothing.
std::optional<std::string> damage_of(const std::filesystem::path& folder);

}  // namespace nsvq
