#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "nsvq/core/config.h"
#include "nsvq/core/tensor_budget.h"
#include "nsvq/io/safetensors.h"
#include "nsvq/tokenizer/tokenizer.h"

namespace nsvq {

/// Format of the model files that this program writes (metadata "nsvq.format"). Files of every
/// earlier format open too: open_model_file converts them.
constexpr int kModelFormat = 2;
/// Metadata that holds a model's configuration, as a recipe.
inline constexpr auto kModelConfigKey = "nsvq.config";

/// A model as its file holds it: weights with the configuration that describes them, sealed
/// (nsvq/io/sealed_tensors.h). `metadata` is added to the file's own.
TensorFile model_contents(const TensorMap& tensors, const Config& config,
                          const std::map<std::string, std::string>& metadata = {});
void write_model(const std::filesystem::path& file, const TensorMap& tensors, const Config& config,
                 const std::map<std::string, std::string>& metadata = {});

/// Makes a file that was read as it is one of the present format; errors call it `path`. Throws
/// UserError for a file that was written by a later version of the program.
void convert_to_present_format(TensorFile& file, const std::filesystem::path& path);

/// A model file as read, in the present format.
struct ModelFile {
  std::filesystem::path path;
  TensorFile contents;
};

/// Reads the model file behind what a user names: a run's folder (its newest checkpoint), a
/// checkpoint folder, a run's checkpoints/best (the one that it names), or a model file. The file
/// is checked by its seal or, where an earlier version wrote none, by the checksums of its
/// checkpoint; the training state beside it is not read. In a run's folder, a checkpoint whose
/// model is damaged is skipped with a line in the log; one that cannot be opened is an error.
/// Throws UserError.
ModelFile open_model_file(const std::filesystem::path& run_or_checkpoint);
/// Limits memory while networks are built by the configuration of a file, whose numbers may ask for
/// any size, by the tensors that are there.
TensorBudget budget_of(const ModelFile& file);

/// A model with the configuration it was trained with, on the CPU, in evaluation mode.
struct LoadedModel {
  Config config;
  Tokenizer tokenizer{nullptr};
  std::filesystem::path file;
};

/// Loads what open_model_file reads. Throws UserError saying what is missing or damaged.
LoadedModel load_model(const std::filesystem::path& run_or_checkpoint);

/// Checkpoint folders of a run, oldest first; none where there is no folder for them. Throws
/// UserError where it cannot be read.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& run);

/// Hash of all weights, by which tokens identify their model.
std::string model_sha256(const Tokenizer& tokenizer);

}  // namespace nsvq
