#include "nsvq/runs/run_folder.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/folder_entries.h"
#include "nsvq/io/files/no_room.h"
#include "nsvq/runs/run_state.h"
#include "nsvq/tokenizer/open_model.h"

namespace nsvq {

namespace fs = std::filesystem;

bool holds_run(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / kSettingsFile, ignored) || !list_checkpoints(folder).empty();
}

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
       {kSettingsFile, kMetricsFile, ".lock", "samples", "checkpoints", "report.html"}) {
    std::error_code ignored;
    refuse_device(run / name);
    if (!fs::is_symlink(run / name, ignored)) continue;
    throw UserError("{}: a link, and a run writes to nothing outside its folder; remove it",
                    (run / name).string());
  }
  for (const auto* name : {"samples", "checkpoints"}) {
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
    // What a process left that was killed before its first checkpoint.
    const bool of_a_run = name.starts_with('.') || name == "samples" || name == "checkpoints" ||
                          name == kMetricsFile || name == "report.html" || is_event_file(name);
    if (of_a_run) continue;
    throw UserError("{}: holds other files ({}) and no run; choose a new folder with --run",
                    folder.string(), name);
  }
}

void make_run_folders(const fs::path& run) {
  std::error_code error;
  fs::create_directories(run / "samples", error);
  if (!error) fs::create_directories(run / "checkpoints", error);
  if (means_no_room(error.value())) {
    throw NoRoom("cannot create folder {}: {}", run.string(), error.message());
  }
  if (error) throw UserError("{}: cannot be created ({})", run.string(), error.message());
}

fs::path newest_samples(const fs::path& run) {
  fs::path newest;
  std::error_code ignored;
  for (const auto& entry : entries_of(run / "samples", ignored)) {
    if (entry.path().extension() == ".png") newest = std::max(newest, entry.path());
  }
  return newest;
}

}  // namespace nsvq
