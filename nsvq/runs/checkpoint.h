#pragma once

#include <filesystem>
#include <optional>

#include "nsvq/core/tensor_map.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/runs/state.h"

namespace nsvq {

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
