#pragma once

#include <filesystem>
#include <optional>

namespace nsvq {

/// The file by which a folder is claimed.
inline constexpr auto kLockFile = ".lock";

/// An exclusive lock on a folder, released by the destructor or when the process ends for any
/// reason.
class FolderLock {
 public:
  /// nullopt if another process holds the lock. Throws RunError if the folder cannot be written to,
  /// and UserError if its `.lock` is a link.
  static std::optional<FolderLock> try_take(const std::filesystem::path& folder);
  /// Whether a process holds the lock on the folder's file `.lock`.
  static bool held(const std::filesystem::path& folder);
  /// Locks the folder itself, without a file `.lock`: for folders whose files are all the user's.
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
