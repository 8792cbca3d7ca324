#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace nsvq {

/// Writes manifest.json into a folder: length and CRC-32C of every other file in it.
void write_manifest(const std::filesystem::path& folder);

/// How a folder differs from its manifest, or nothing.
std::optional<std::string> difference_from_manifest(const std::filesystem::path& folder);

}  // namespace nsvq
