#include "nsvq/runs/directory.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/log.h"
#include "nsvq/io/files/append_file.h"
#include "nsvq/io/files/atomic_file.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/runs/folder.h"
#include "nsvq/runs/layout/layout.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

Json line_of(const std::string& kind, const RunState& state, const std::string& phase) {
  return {{"kind", kind}, {"step", state.step}, {"epoch", state.epoch}, {"phase", phase}};
}

uint64_t size_of(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  return error ? 0 : size;
}

/// Removes event files other than `kept`, and what killed processes left half written.
void clean_up(const fs::path& run, const std::string& kept) {
  for (const auto& folder : {run, run / kSamplesFolder, run / kCheckpointsFolder})
    remove_unfinished(folder);
  std::error_code ignored;
  for (const auto& entry : entries_of(run, ignored)) {
    const auto name = entry.path().filename().string();
    if (is_event_file(name) && name != kept) fs::remove_all(entry.path(), ignored);
  }
}

/// Drops what is behind the first `length` bytes. Where a power cut left fewer, the last line may
/// be torn and is dropped.
void cut_lines(const fs::path& path, uint64_t length) {
  AppendFile file(path);
  if (file.length() >= length) return file.cut(length);
  const auto text = read_text(path);
  const auto end = text.rfind('\n');
  file.cut(end == std::string::npos ? 0 : end + 1);
}

}  // namespace

RunDirectory::RunDirectory(fs::path path, FolderLock lock)
    : path_(std::move(path)), lock_(std::make_unique<FolderLock>(std::move(lock))) {
  refuse_links(path_);
  make_run_folders(path_);
  for (const auto& folder : {path_, path_ / kSamplesFolder, path_ / kCheckpointsFolder}) {
    struct stat info {};
    if (::stat(folder.c_str(), &info) != 0) {
      throw RunError("cannot read {}: {}", folder.string(), std::strerror(errno));
    }
    folders_.push_back({folder, info.st_dev, info.st_ino});
  }
}

/// Without this check a folder that was moved would be made anew, with the rest of the run in it.
void RunDirectory::require_in_place() const {
  for (const auto& folder : folders_) {
    struct stat info {};
    // The run's own name may be a link, but nothing in it.
    const int result = folder.path == path_ ? ::stat(folder.path.c_str(), &info)
                                            : ::lstat(folder.path.c_str(), &info);
    if (result == 0 && info.st_dev == folder.device && info.st_ino == folder.inode) continue;
    throw RunMoved(
        "{}: moved, removed or replaced while the run was trained in it; `nsvq train FOLDER "
        "--resume` goes on from its newest checkpoint where the folder is now",
        folder.path.string());
  }
}

RunDirectory RunDirectory::create(fs::path path, const std::string& settings) {
  const auto refuse_run = [&] {
    if (!holds_run(path)) return;
    throw UserError("{}: already holds a run; choose another folder with --run or remove it",
                    path.string());
  };
  refuse_run();
  refuse_other_files(path);
  refuse_links(path);
  make_run_folders(path);
  auto lock = lock_run(path);
  refuse_run();  // another process may have begun one until now
  RunDirectory run(std::move(path), std::move(lock));
  clean_up(run.path_, "");
  write_text(run.path_ / kSettingsFile, settings);
  run.events_ = std::make_unique<EventWriter>(run.path_);
  return run;
}

RunDirectory RunDirectory::resume(fs::path path, FolderLock lock,
                                  const std::optional<std::string>& settings,
                                  const std::optional<LogPosition>& position, int64_t from) {
  RunDirectory run(std::move(path), std::move(lock));
  const auto folders = list_checkpoints(run.path_);
  const auto resumed = run.path_ / kCheckpointsFolder / checkpoint_name(from);
  for (auto folder = folders.rbegin(); folder != folders.rend() && *folder != resumed; ++folder) {
    run.passed_over_.insert(*folder);
  }
  const auto kept = position ? *position : LogPosition{};
  clean_up(run.path_, kept.events);
  if (settings) write_text(run.path_ / kSettingsFile, *settings);
  cut_lines(run.path_ / kMetricsFile, kept.metrics);
  const auto events = run.path_ / kept.events;
  const bool events_there = !kept.events.empty() && size_of(events) >= kept.events_length;
  run.events_ = events_there ? std::make_unique<EventWriter>(events, kept.events_length)
                             : std::make_unique<EventWriter>(run.path_);
  return run;
}

LogPosition RunDirectory::position() const {
  return {size_of(path_ / kMetricsFile), events_->path().filename().string(), events_->length()};
}

void RunDirectory::record(const std::string& kind, const RunState& state, const std::string& phase,
                          const std::map<std::string, double>& values,
                          const std::map<std::string, std::vector<double>>& lists) {
  require_in_place();
  auto line = line_of(kind, state, phase);
  for (const auto& [name, value] : values) {
    line[name] = value;
    events_->scalar(kind + "/" + name, state.step, value);
  }
  for (const auto& [name, list] : lists) line[name] = list;
  append_line(path_ / kMetricsFile, line.dump());
  events_->flush();
}

void RunDirectory::record_phase(const RunState& state, const std::string& phase,
                                const std::string& reason) {
  auto line = line_of("phase", state, phase);
  line["reason"] = reason;
  record_text(line.dump(), "phase", state.step, phase + ": " + reason);
}

void RunDirectory::record_alarm(const RunState& state, const std::string& phase,
                                const std::string& sign, const std::string& reason) {
  auto line = line_of("alarm", state, phase);
  line["sign"] = sign;
  line["reason"] = reason;
  record_text(line.dump(), "alarm", state.step, reason);
}

void RunDirectory::record_text(const std::string& line, const std::string& tag, int64_t step,
                               const std::string& text) {
  require_in_place();
  append_line(path_ / kMetricsFile, line);
  events_->text(tag, step, text);
  events_->flush();
}

fs::path RunDirectory::save_samples(const RunState& state, const Image& grid) {
  require_in_place();
  const auto file = path_ / kSamplesFolder / sample_name(state.epoch);
  write_image(file, grid);
  events_->image("samples", state.step, grid);
  events_->flush();
  return file;
}

void RunDirectory::mark_best(int64_t step) {
  require_in_place();
  const auto marker = path_ / kCheckpointsFolder / kBestFile;
  const auto name = checkpoint_name(step), text = name + "\n";
  std::error_code ignored;
  if (step < 0) {
    fs::remove(marker, ignored);
  } else if (fs::is_directory(path_ / kCheckpointsFolder / name, ignored) &&
             (!fs::exists(marker, ignored) || read_text(marker) != text)) {
    write_text(marker, text);
  }
}

/// In this order, each step on the disk before the next: the logs; all files of the checkpoint in a
/// temporary folder beside it (save_checkpoint), which then gets its name; the name of the best
/// one. Only then old checkpoints go.
void RunDirectory::save(const Checkpoint& checkpoint, int64_t keep, int64_t best) {
  require_in_place();
  const auto folder_of = [&](int64_t step) {
    return path_ / kCheckpointsFolder / checkpoint_name(step);
  };
  // The checkpoint counts on what the logs hold now, also after a power cut.
  AppendFile(path_ / kMetricsFile).sync();
  events_->sync();
  save_checkpoint(folder_of(checkpoint.state.step), checkpoint);
  mark_best(best);  // before the one that was the best goes
  passed_over_.erase(folder_of(checkpoint.state.step));
  remove_old(folder_of(checkpoint.state.step), keep, best >= 0 ? folder_of(best) : fs::path());
}

/// Training goes on from the newest whole checkpoint, so that one with a higher number than the
/// last written is damaged or of another run: neither kind counts, or it would push out the good.
void RunDirectory::remove_old(const fs::path& written, int64_t keep, const fs::path& best) {
  const auto folders = list_checkpoints(path_);
  auto folder = std::find(folders.rbegin(), folders.rend(), written);
  for (int64_t kept = 0; folder != folders.rend(); ++folder) {
    if (kept < keep) {
      kept += passed_over_.contains(*folder) ? 0 : 1;
      continue;
    }
    if (*folder == best) continue;
    std::error_code error;
    fs::remove_all(*folder, error);
    if (error) log("{}: cannot be removed ({})", folder->string(), error.message());
  }
}

}  // namespace nsvq
