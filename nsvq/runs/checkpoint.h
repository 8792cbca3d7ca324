#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "nsvq/core/tensor_map.h"
#include "nsvq/io/formats/safetensors.h"

namespace nsvq {

/// The most steps, batches and samples that a state may hold; sums and products of a few of them
/// stay within 64 bits.
inline constexpr int64_t kMostCounted = 2'000'000'000'000;

/// Where a run is, apart from its tensors and the task's own state. Random numbers need no state:
/// every draw is a function of the seed, its purpose and the step or epoch.
struct RunState {
  int64_t step = 0;          ///< optimizer steps done, skipped ones included
  int64_t epoch = 0;         ///< epochs finished
  int64_t batch = 0;         ///< batches used of the epoch under way
  int64_t used = 0;          ///< samples of it used before these, by another number of processes
  int64_t step_samples = 0;  ///< samples in a step, over all processes; 0: not known
  int64_t skipped = 0;       ///< steps skipped as non-finite
  int64_t samples = 0;       ///< size of the training set, which fixes the order of samples
  bool finished = false;     ///< the budget is spent
  /// The run was stopped during the last epoch's evaluation, which is to be repeated.
  bool evaluation_pending = false;
  std::map<std::string, double> evaluation = {};  ///< the last one
  /// The best evaluation by checkpoint.keep_best; no metric before the first one.
  struct Best {
    std::string metric;
    double value = 0;
    int64_t step = 0;
  } best = {};
  std::string task = "{}";  ///< the task's own state, as JSON
};

/// How much of a run's logs belongs to a checkpoint: a run that continues from it writes the rest
/// again.
struct LogPosition {
  uint64_t metrics = 0;  ///< bytes of metrics.jsonl
  std::string events;    ///< name of the event file, empty if there is none
  uint64_t events_length = 0;
};

/// Both as the text of state.json, and back. Throws UserError calling the text `source`; the state
/// of another format is refused.
std::string state_to_json(const RunState& state, const LogPosition& logs);
std::pair<RunState, LogPosition> state_from_json(const std::string& text,
                                                 const std::string& source);

/// A checkpoint folder holds
///   model.safetensors     the averaged weights with their configuration: all that inference needs
///   training.safetensors  what else training needs: weights, moments, counts, sums
///   state.json            the format's number, the RunState and the LogPosition
///   manifest.json         length and CRC-32C of each of these files
struct Checkpoint {
  RunState state;
  LogPosition logs;
  TensorFile model;
  TensorMap training;
};

/// Writes `folder` whole or not at all.
void save_checkpoint(const std::filesystem::path& folder, const Checkpoint& checkpoint);

/// All of an undamaged checkpoint. Throws UserError.
Checkpoint load_checkpoint(const std::filesystem::path& folder);

/// The newest checkpoint of a run whose files are all undamaged, with a line in the log about each
/// that is not; nothing if there are no checkpoints. Throws UserError if all are damaged.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& run);

/// The RunState of a checkpoint.
RunState load_run_state(const std::filesystem::path& folder);

}  // namespace nsvq
