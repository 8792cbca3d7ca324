#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace nsvq {

// Names in a run's folder, and what can be told without opening a file: whether a folder holds a
// run, its checkpoints. Locks, checksums and event files are named by nsvq/io.

inline constexpr auto kRunsFolder = "runs";  ///< where runs lie that were given no folder

inline constexpr auto kSettingsFile = "config.yaml";
inline constexpr auto kMetricsFile = "metrics.jsonl";
inline constexpr auto kSamplesFolder = "samples";
inline constexpr auto kCheckpointsFolder = "checkpoints";
inline constexpr auto kReportFile = "report.html";

/// In the folder of checkpoints: a file that names the one of the best evaluation.
inline constexpr auto kBestFile = "best";

// In a checkpoint.
inline constexpr auto kModelFile = "model.safetensors";
inline constexpr auto kTrainingFile = "training.safetensors";
inline constexpr auto kStateFile = "state.json";

/// Beside the folder of a run that `nsvq reproduce` has made: the recipe it was trained by.
inline constexpr auto kReproducedRecipe = "recipe.yaml";

/// The folder of a checkpoint, "step-N", and N of such a folder.
std::string checkpoint_name(int64_t step);
std::optional<int64_t> step_of_checkpoint(const std::filesystem::path& folder);

/// The pictures of an epoch, "epoch-NNNN.png", and NNNN of such a file.
std::string sample_name(int64_t epoch);
std::optional<int64_t> epoch_of_sample(const std::filesystem::path& file);

/// Whether this is the plain name of a TensorBoard event file.
bool is_event_file(const std::string& name);

/// Checkpoint folders of a run, oldest first; none where there is no folder for them. Throws
/// UserError where it cannot be read.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& run);

/// Whether a folder holds a run, by what it holds: settings or checkpoints.
bool holds_run(const std::filesystem::path& folder);

/// The newest picture in a run's samples/; empty if there is none.
std::filesystem::path newest_samples(const std::filesystem::path& run);

}  // namespace nsvq
