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

/// Where a run puts its files:
///   config.yaml  metrics.jsonl  events.out.tfevents.*  samples/  checkpoints/step-N/  report.html
/// One process at a time has it.
class RunDirectory {
 public:
  /// Creates the folder, with the run's settings in config.yaml. Throws UserError if it already
  /// holds a run.
  static RunDirectory create(std::filesystem::path path, const std::string& settings);
  /// Opens a run's folder to go on in it from a checkpoint: drops what its logs hold beyond
  /// `position` (all of it without one), so that they become those of a run that never stopped.
  static RunDirectory resume(std::filesystem::path path, const std::string& settings,
                             const std::optional<LogPosition>& position);

  const std::filesystem::path& path() const { return path_; }
  LogPosition position() const;

  /// A line of metrics.jsonl and, for each value, a point in TensorBoard under "kind/name".
  void record(const std::string& kind, const RunState& state, const std::string& phase,
              const std::map<std::string, double>& values);
  /// A phase begins: a line of metrics.jsonl and a text in TensorBoard.
  void record_phase(const RunState& state, const std::string& phase, const std::string& reason);
  /// A sign of collapse and what it says, likewise.
  void record_alarm(const RunState& state, const std::string& phase, const std::string& sign,
                    const std::string& reason);
  /// samples/epoch-NNNN.png, also in TensorBoard. Returns its path.
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

/// The last grid in a run's samples/; empty if there is none.
std::filesystem::path newest_samples(const std::filesystem::path& run);

}  // namespace nsvq
