#pragma once

#include <filesystem>
#include <optional>

namespace nsvq {

/// A folder claimed by one process: others fail to take it until this one lets go or ends, however
/// it ends.
class FolderLock {
 public:
  /// Nothing if another process holds the folder. Throws RunError if it cannot be written to, and
  /// UserError if its `.lock` is a link.
  static std::optional<FolderLock> try_take(const std::filesystem::path& folder);
  /// Whether a process holds the folder by its file `.lock`.
  static bool held(const std::filesystem::path& folder);
  /// Without a file `.lock` in the folder: for folders whose files are all the user's.
  static std::optional<FolderLock> try_take_folder(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}
  static std::optional<FolderLock> lock(int descriptor);
  int descriptor_;
};

}  // namespace nsvq
