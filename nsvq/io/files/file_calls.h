#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <filesystem>
#include <span>

#include "nsvq/io/files/descriptor.h"

namespace nsvq {

// System calls on files, for the files of this folder: made again where a signal interrupts them,
// with errors that name the path.

/// Throws UserError. `error` is an errno.
[[noreturn]] void fail_read(const std::filesystem::path& path, int error);
/// Throws RunError, NoRoom (no_room.h) where the disk is full.
[[noreturn]] void fail_write(const std::filesystem::path& path, int error);

/// Leaves errors in errno.
Descriptor open_file(const std::filesystem::path& path, int flags);
int rename_file(const std::filesystem::path& from, const std::filesystem::path& to);

/// Opens a regular file for reading and describes it in `info`; waits for no pipe and touches no
/// device. Throws UserError.
Descriptor open_regular(const std::filesystem::path& path, struct stat& info);

/// Writes all of `bytes`. Throws RunError calling the file `path`, as all below do.
void write_all(const std::filesystem::path& path, int descriptor, std::span<const std::byte> bytes);
/// Waits until the file is on the disk.
void sync_descriptor(const std::filesystem::path& path, int descriptor);
/// Likewise of a file or folder by its name.
void sync_path(const std::filesystem::path& path);

/// Makes the folder and all above it that are missing.
void make_folders(const std::filesystem::path& folder);
/// The folder that a file is in: "." for a bare name.
std::filesystem::path parent_of(const std::filesystem::path& path);

}  // namespace nsvq
