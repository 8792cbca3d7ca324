#include "nsvq/runs/folder.h"

#include <string>
#include <system_error>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/io/files/file.h"
#include "nsvq/runs/layout/layout.h"

namespace nsvq {

namespace fs = std::filesystem;

FolderLock lock_run(const fs::path& run) {
  if (auto lock = FolderLock::try_take(run)) return std::move(*lock);
  throw UserError(
      "{}: another process is training in this folder; wait for it or choose another with --run",
      run.string());
}

void refuse_device(const fs::path& file) {
  std::error_code ignored;
  if (!fs::is_other(file, ignored)) return;
  throw UserError(
      "{}: a device or a pipe, and a run writes to nothing outside its folder; remove it",
      file.string());
}

void refuse_links(const fs::path& run) {
  for (const auto* name :
       {kSettingsFile, kMetricsFile, kLockFile, kSamplesFolder, kCheckpointsFolder, kReportFile}) {
    std::error_code ignored;
    refuse_device(run / name);
    if (!fs::is_symlink(run / name, ignored)) continue;
    throw UserError("{}: a link, and a run writes to nothing outside its folder; remove it",
                    (run / name).string());
  }
  for (const auto* name : {kSamplesFolder, kCheckpointsFolder}) {
    std::error_code ignored;
    for (const auto& entry : entries_of(run / name, ignored)) {
      refuse_device(entry.path());
    }
  }
}

void refuse_other_files(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : entries_of(folder, ignored)) {
    const auto name = entry.path().filename().string();
    // A process that was killed before its first checkpoint may have left these.
    const bool of_a_run = name.starts_with('.') || name == kSamplesFolder ||
                          name == kCheckpointsFolder || name == kMetricsFile ||
                          name == kReportFile || is_event_file(name);
    if (of_a_run) continue;
    throw UserError("{}: holds other files ({}) and no run; choose a new folder with --run",
                    folder.string(), name);
  }
}

void make_run_folders(const fs::path& run) {
  std::error_code error;
  fs::create_directories(run / kSamplesFolder, error);
  if (!error) fs::create_directories(run / kCheckpointsFolder, error);
  if (means_no_room(error.value())) {
    throw NoRoom("cannot create folder {}: {}", run.string(), error.message());
  }
  if (error) throw UserError("{}: cannot be created ({})", run.string(), error.message());
}

}  // namespace nsvq
