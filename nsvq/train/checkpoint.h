#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "nsvq/core/config.h"
#include "nsvq/train/tokenizer.h"

namespace nsvq {

/// Where a run stands, apart from its tensors.
struct Progression {
  int64_t step = 0;                ///< optimizer steps taken
  int64_t epoch = 0;               ///< epochs finished
  int64_t batch = 0;               ///< batches taken of the epoch under way
  int64_t phase = 0;               ///< position in schedule.phases
  int64_t phase_start = 0;         ///< epochs finished when the phase began
  std::vector<double> commitment;  ///< mean commitment loss of each epoch
};

/// A checkpoint folder holds
///   model.safetensors     the averaged weights with the configuration: all that evaluation needs
///   training.safetensors  the weights as trained, optimizer moments, usage counts
///   state.json            the format's version and the Progression
struct Checkpoint {
  Config config;
  Progression at;
  std::map<std::string, torch::Tensor> model;
  std::map<std::string, torch::Tensor> training;
};

/// Writes `folder` whole or not at all.
void save_checkpoint(const std::filesystem::path& folder, const Checkpoint& checkpoint);

/// The model file behind what a user names: a run directory (its newest checkpoint), a checkpoint
/// folder, or a model file itself. Throws UserError saying what is missing.
std::filesystem::path find_model(const std::filesystem::path& run_or_checkpoint);

/// Checkpoint folders of a run, oldest first.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& run);

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
