#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "nsvq/core/error.h"

namespace nsvq {

/// Creates an empty temporary folder and removes it on destruction. Throws RunError if it cannot be
/// created.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code error;
    const auto parent = std::filesystem::temp_directory_path(error);
    if (error) throw RunError("no folder for temporary files: set TMPDIR to one that exists");
    std::string name = (parent / "nsvq-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw RunError("cannot create a folder {}", name);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace nsvq
