#pragma once

#include <filesystem>

#include "nsvq/io/files/lock.h"

namespace nsvq {

// Whether a folder may become a run, or be written to as one.

/// Claims a run's folder for this process. Throws UserError if another process trains in it.
FolderLock lock_run(const std::filesystem::path& run);

/// Throws UserError for a file of a run that is a device or a pipe, or a link to one: it would be
/// written to, not replaced.
void refuse_device(const std::filesystem::path& file);

/// Throws UserError if something in the folder that is about to be written to is a link or such a
/// file.
void refuse_links(const std::filesystem::path& run);

/// Throws UserError if a folder holds files that no run writes, such as photos: a new run would mix
/// with them.
void refuse_other_files(const std::filesystem::path& folder);

/// Makes a run's folder and those in it. Throws UserError, NoRoom where the disk is full.
void make_run_folders(const std::filesystem::path& run);

}  // namespace nsvq
