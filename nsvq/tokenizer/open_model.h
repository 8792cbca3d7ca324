#pragma once

#include <filesystem>
#include <vector>

#include "nsvq/core/device.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/tokenizer/tokenizer.h"

namespace nsvq {

// From what a user names to a model in memory.

/// A model file as read, in the present format.
struct ModelFile {
  std::filesystem::path path;
  TensorFile contents;
};

/// Reads the model file behind what a user names: a run's folder (its newest checkpoint), a
/// checkpoint folder, a run's checkpoints/best (the one that it names), or a model file. The file
/// is checked by the hash that it holds or, where an earlier version wrote none, by the checksums
/// of its checkpoint; the training state beside it is not read. In a run's folder, a checkpoint
/// whose model is damaged is skipped with a line in the log; one that cannot be opened is an error.
/// Throws UserError.
ModelFile open_model_file(const std::filesystem::path& run_or_checkpoint);
/// Limits memory while networks are built by the configuration of a file, whose numbers may ask for
/// any size, by the tensors that are there.
TensorBudget budget_of(const ModelFile& file);
/// Bytes that networks of these tensors may take.
uint64_t memory_for(const TensorMap& tensors);

/// A model with the configuration it was trained with, on the CPU, in evaluation mode.
struct LoadedModel {
  TokenizerConfig config;
  Tokenizer tokenizer{nullptr};
  std::filesystem::path file;
};

/// Loads what open_model_file reads. Throws UserError saying what is missing or damaged.
LoadedModel load_model(const std::filesystem::path& run_or_checkpoint);

}  // namespace nsvq
