#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/core/config.h"
#include "nsvq/train/progression.h"
#include "nsvq/train/tokenizer.h"

namespace nsvq {

/// A checkpoint folder holds
///   model.safetensors     the averaged weights with the configuration: all that evaluation needs
///   training.safetensors  what else training needs: weights as trained, moments, counts, sums
///   state.json            the format's version, the Progression and the LogPosition
///   manifest.json         length and CRC-32C of each of these files
struct Checkpoint {
  Config config;
  Progression at;
  LogPosition logs;
  std::map<std::string, torch::Tensor> model;
  std::map<std::string, torch::Tensor> training;
};

/// Writes `folder` whole or not at all.
void save_checkpoint(const std::filesystem::path& folder, const Checkpoint& checkpoint);

/// All of an undamaged checkpoint. Throws UserError.
Checkpoint load_checkpoint(const std::filesystem::path& folder);

/// Checkpoint folders of a run, oldest first.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& run);

/// The newest undamaged one, with a line in the log about each that is passed over; nothing if
/// there are none. Throws UserError if all are damaged.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& run);

/// The model file behind what a user names: a run directory (its newest checkpoint), a checkpoint
/// folder, or a model file itself. Throws UserError saying what is missing.
std::filesystem::path find_model(const std::filesystem::path& run_or_checkpoint);

/// A model with the configuration it was trained with.
struct LoadedModel {
  Config config;
  Tokenizer tokenizer{nullptr};
  std::filesystem::path file;
  std::map<std::string, std::string> metadata;
};
LoadedModel load_model(const std::filesystem::path& run_or_checkpoint);

/// The Progression in a checkpoint's state.json.
Progression load_progression(const std::filesystem::path& folder);

}  // namespace nsvq
