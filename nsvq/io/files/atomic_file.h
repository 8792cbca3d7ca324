#pragma once

#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string_view>

#include "nsvq/io/files/file.h"

namespace nsvq {

// Unfinished files and folders are named `.NAME.tmp-PID-N`, beside their final NAME. Those that
// killed processes left can be ignored or removed.

/// Whether a name, links followed, denotes an open descriptor (/dev/stdout, /dev/fd/3).
bool names_descriptor(std::filesystem::path path);

/// write_file (file.h) in pieces: `write` them, then `commit` syncs and renames. Without `commit`
/// nothing appears. A device or a pipe (/dev/null) is written directly; a regular file named by its
/// descriptor throws UserError.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path final_path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void commit();
  /// Commits unless a file of the final name exists; then returns false and nothing appears. If
  /// several processes do this, on machines that share the disk, exactly one succeeds. The file
  /// appears whole even without a sync, but then a power cut may leave an empty one. (On a file
  /// system with neither hard links nor a rename that replaces nothing, readers may see an empty
  /// file for a moment.)
  bool commit_if_new(Sync sync = Sync::yes);

 private:
  std::filesystem::path final_, temporary_;
  Descriptor file_;
};

/// A folder that appears whole: fill `path()`, then `commit()` syncs every file in it and renames
/// the folder to its final name (replacing an older one). Without `commit` it is removed again.
class AtomicFolder {
 public:
  explicit AtomicFolder(std::filesystem::path final_path);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  const std::filesystem::path& path() const { return temporary_; }
  void commit();
  /// commit, but replaces nothing except an empty folder: throws UserError where something else has
  /// the final name.
  void commit_if_free();

 private:
  std::filesystem::path final_, temporary_;
  bool committed_ = false;
};

/// Whether this is the name of an unfinished file or folder.
bool is_unfinished(const std::filesystem::path& path);

/// Removes unfinished files and folders that killed processes left in `folder`, if their final
/// names begin with one of `beginnings` ("": any name). Failures are ignored.
void remove_unfinished(const std::filesystem::path& folder,
                       std::initializer_list<std::string_view> beginnings = {""});

}  // namespace nsvq
