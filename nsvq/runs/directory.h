#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/io/files/lock.h"
#include "nsvq/io/formats/tensorboard.h"
#include "nsvq/io/images/image.h"
#include "nsvq/runs/checkpoint.h"

namespace nsvq {

/// A run's folder is not where it was. It ends the run whatever checkpoint.on_error says: nothing
/// more can be kept.
struct RunMoved : RunError {
  using RunError::RunError;
};

/// The folder of a run:
///   config.yaml  metrics.jsonl  events.out.tfevents.*  samples/  checkpoints/step-N/  report.html
/// Locked: one process at a time can open it. Nothing is written through links: a run that came
/// from elsewhere may hold links to any file. What writes throws RunMoved if the folder was moved
/// or removed, and RunError if it fails.
class RunDirectory {
 public:
  /// Creates the folder and writes `settings` to config.yaml. Throws UserError if it already
  /// contains a run.
  static RunDirectory create(std::filesystem::path path, const std::string& settings);
  /// Opens a run's folder, claimed by `lock`, to resume from a checkpoint. Truncates the logs to
  /// the checkpoint's `position` (to nothing without one), so that they end up as those of an
  /// uninterrupted run. Without `settings`, config.yaml stays as it is. Checkpoints newer than that
  /// of step `from` are damaged, and were skipped.
  static RunDirectory resume(std::filesystem::path path, FolderLock lock,
                             const std::optional<std::string>& settings,
                             const std::optional<LogPosition>& position, int64_t from);

  const std::filesystem::path& path() const { return path_; }
  LogPosition position() const;

  /// Appends a line to metrics.jsonl and, for each value, a TensorBoard scalar "kind/name". Lists
  /// of numbers stand in the line alone.
  void record(const std::string& kind, const RunState& state, const std::string& phase,
              const std::map<std::string, double>& values,
              const std::map<std::string, std::vector<double>>& lists = {});
  /// Records the start of a phase: a line in metrics.jsonl and a text in TensorBoard.
  void record_phase(const RunState& state, const std::string& phase, const std::string& reason);
  /// Records an alarm (alarm.h): a line in metrics.jsonl and a text in TensorBoard.
  void record_alarm(const RunState& state, const std::string& phase, const std::string& sign,
                    const std::string& reason);
  /// Writes samples/epoch-NNNN.png and a TensorBoard image; returns the path.
  std::filesystem::path save_samples(const RunState& state, const Image& grid);
  /// Writes checkpoints/step-N and removes all but the newest `keep` and that of step `best`, which
  /// the file checkpoints/best names; -1: none is the best. Skipped ones do not
  /// count.
  void save(const Checkpoint& checkpoint, int64_t keep, int64_t best = -1);
  /// Lets checkpoints/best name the checkpoint of a step, if it is there; -1: removes the name.
  void mark_best(int64_t step);

 private:
  /// Which folder a path led to when the run was opened.
  struct Identity {
    std::filesystem::path path;
    dev_t device;
    ino_t inode;
  };

  RunDirectory(std::filesystem::path path, FolderLock lock);
  void require_in_place() const;
  void record_text(const std::string& line, const std::string& tag, int64_t step,
                   const std::string& text);
  void remove_old(const std::filesystem::path& written, int64_t keep,
                  const std::filesystem::path& best);

  std::filesystem::path path_;
  std::unique_ptr<FolderLock> lock_;
  std::vector<Identity> folders_;
  std::unique_ptr<EventWriter> events_;
  std::set<std::filesystem::path> passed_over_;  ///< checkpoints that training did not go on from
};

}  // namespace nsvq
