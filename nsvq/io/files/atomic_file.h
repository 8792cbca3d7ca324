#pragma once

#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string_view>

#include "nsvq/io/files/descriptor.h"
#include "nsvq/io/files/file.h"

namespace nsvq {

// Files and folders under construction are named `.NAME.tmp-PID-N`, beside their final NAME. One
// left by a killed process can be ignored or removed.

/// Whether a name stands for what a descriptor has open (/dev/stdout, /dev/fd/3), links followed.
bool names_descriptor(std::filesystem::path path);

/// write_file (file.h) in pieces: `write` them, then `commit` syncs and renames. Without `commit`
/// nothing appears. A device or a pipe (/dev/null) is written directly; a file by the name of its
/// descriptor throws UserError.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path final_path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void commit();
  /// As commit, unless there is a file of the final name already: then nothing appears, and the
  /// answer is false. Of several processes, on several machines that share the disk, one makes it.
  /// Others see it whole, without a sync too, but then a power cut may leave an empty file. (Where
  /// the file system has neither hard links nor a rename that replaces nothing, others may see an
  /// empty file for a moment.)
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

 private:
  std::filesystem::path final_, temporary_;
  bool committed_ = false;
};

/// Removes the unfinished files and folders that killed processes left in `folder`, of final names
/// that begin with one of `beginnings` ("": any name). What cannot be removed stays.
void remove_unfinished(const std::filesystem::path& folder,
                       std::initializer_list<std::string_view> beginnings = {""});

}  // namespace nsvq
