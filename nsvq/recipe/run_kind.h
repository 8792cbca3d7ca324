#pragma once

#include <map>
#include <string>
#include <vector>

#include "nsvq/settings/yaml.h"

namespace nsvq {

/// What a run trains.
enum class RunKind { tokenizer, diffusion, generator };

/// Metadata of model files: all settings, as YAML.
inline constexpr auto kModelConfigKey = "nsvq.config";
inline constexpr auto kDiffusionConfigKey = "nsvq.diffusion.config";
inline constexpr auto kGeneratorConfigKey = "nsvq.generator.config";

struct RunKindInfo {
  RunKind kind;
  std::string name;                   ///< in experiments
  std::string trained;                ///< in messages: what is trained, and by which command
  std::string command;                ///< that trains it
  std::vector<std::string> sections;  ///< sections of settings that no other kind has
  std::string settings_key;           ///< key of its models' metadata that holds the settings
  std::string loss = "";              ///< an evaluation's column beside the metrics, if any
  /// Its sample pictures are pairs of images and reconstructions; false: new images.
  bool reconstructs = false;
};

/// All kinds, in the order of the enum.
const std::vector<RunKindInfo>& run_kinds();
const RunKindInfo& run_kind(RunKind kind);

/// Whether a column of this name is the validation loss of some kind.
bool is_loss_column(const std::string& name);

/// The kind whose own section a run's settings have; without any, a tokenizer.
RunKind kind_of_settings(const std::vector<YamlSetting>& settings);

/// Sections that the other kinds have for themselves, each with what its kind trains.
std::map<std::string, std::string> sections_of_other_kinds(RunKind kind);

}  // namespace nsvq
