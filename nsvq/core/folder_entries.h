#pragma once

#include <filesystem>
#include <system_error>

namespace nsvq {

/// The entries of a folder, which is opened again when a signal interrupts that, as network file
/// systems let signals do.
inline std::filesystem::directory_iterator entries_of(const std::filesystem::path& folder,
                                                      std::error_code& error) {
  std::filesystem::directory_iterator entries(folder, error);
  while (error == std::errc::interrupted) {
    entries = std::filesystem::directory_iterator(folder, error);
  }
  return entries;
}

/// entries_of; throws filesystem_error.
inline std::filesystem::directory_iterator entries_of(const std::filesystem::path& folder) {
  std::error_code error;
  auto entries = entries_of(folder, error);
  if (error) throw std::filesystem::filesystem_error("cannot list", folder, error);
  return entries;
}

}  // namespace nsvq
