#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "nsvq/core/config.h"
#include "nsvq/io/image.h"
#include "nsvq/io/tensorboard.h"
#include "nsvq/train/checkpoint.h"

namespace nsvq {

/// Where a run puts its files:
///   config.yaml  metrics.jsonl  events.out.tfevents.*  samples/  checkpoints/step-N/  report.html
class RunDirectory {
 public:
  /// Creates the folder. Throws UserError if it already holds a run.
  RunDirectory(std::filesystem::path path, const Config& config);

  const std::filesystem::path& path() const { return path_; }
  /// A line of metrics.jsonl and, for each value, a point in TensorBoard under "kind/name".
  void record(const std::string& kind, const Progression& at, const std::string& phase,
              const std::map<std::string, double>& values);
  /// A phase begins: a line of metrics.jsonl and a text in TensorBoard.
  void record_phase(const Progression& at, const std::string& phase, const std::string& reason);
  /// samples/epoch-NNNN.png, also in TensorBoard. Returns its path.
  std::filesystem::path save_samples(const Progression& at, const Image& grid);
  /// Writes checkpoints/step-N and removes all but the newest `keep`.
  void save(const Checkpoint& checkpoint, int64_t keep);

 private:
  std::filesystem::path path_;
  std::unique_ptr<EventWriter> events_;
};

/// runs/NAME, or runs/NAME-2 and so on: the first that is not there yet.
std::filesystem::path free_run_path(const std::string& name);

}  // namespace nsvq
