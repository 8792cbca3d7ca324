#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "nsvq/io/image.h"
#include "nsvq/io/lock.h"
#include "nsvq/io/tensorboard.h"
#include "nsvq/train/checkpoint.h"

namespace nsvq {

/// The folder of a run:
///   config.yaml  metrics.jsonl  events.out.tfevents.*  samples/  checkpoints/step-N/  report.html
/// Locked: one process at a time can open it.
class RunDirectory {
 public:
  /// Creates the folder and writes `settings` to config.yaml. Throws UserError if it already
  /// contains a run.
  static RunDirectory create(std::filesystem::path path, const std::string& settings);
  /// Opens a run's folder to resume from a checkpoint. Truncates the logs to the checkpoint's
  /// `position` (to nothing without one), so that they end up as those of an uninterrupted run.
  static RunDirectory resume(std::filesystem::path path, const std::string& settings,
                             const std::optional<LogPosition>& position);

  const std::filesystem::path& path() const { return path_; }
  LogPosition position() const;

  /// Appends a line to metrics.jsonl and, for each value, a TensorBoard scalar "kind/name".
  void record(const std::string& kind, const RunState& state, const std::string& phase,
              const std::map<std::string, double>& values);
  /// Records the start of a phase: a line in metrics.jsonl and a text in TensorBoard.
  void record_phase(const RunState& state, const std::string& phase, const std::string& reason);
  /// Records an alarm (alarm.h): a line in metrics.jsonl and a text in TensorBoard.
  void record_alarm(const RunState& state, const std::string& phase, const std::string& sign,
                    const std::string& reason);
  /// Writes samples/epoch-NNNN.png and a TensorBoard image; returns the path.
  std::filesystem::path save_samples(const RunState& state, const Image& grid);
  /// Writes checkpoints/step-N and removes all but the newest `keep`.
  void save(const Checkpoint& checkpoint, int64_t keep);

 private:
  RunDirectory(std::filesystem::path path, const std::string& settings);
  void record_text(const std::string& line, const std::string& tag, int64_t step,
                   const std::string& text);

  std::filesystem::path path_;
  std::unique_ptr<FolderLock> lock_;
  std::unique_ptr<EventWriter> events_;
};

/// The newest picture in a run's samples/; empty if there is none.
std::filesystem::path newest_samples(const std::filesystem::path& run);

}  // namespace nsvq
