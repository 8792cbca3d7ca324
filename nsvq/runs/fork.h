#pragma once

#include <concepts>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/runs/checkpoint.h"

namespace nsvq {

// A fork: a run that goes on in another folder, as it was at a checkpoint, with other settings. The
// run itself is only read.

/// Throws UserError unless the folder of a fork of `run` is free: missing or empty, and outside of
/// the run.
void require_free_folder(const std::filesystem::path& run, const std::filesystem::path& folder);

/// The settings of two tables of equal rows that differ, each as "key old -> new".
std::vector<std::string> changed_settings(const OptionTable& old, const OptionTable& now);
template <std::derived_from<RunConfig> Config>
std::vector<std::string> changed_settings(Config old, Config now) {
  return changed_settings(option_table(old), option_table(now));
}
/// The key of such a change.
std::string changed_key(const std::string& change);

/// Throws UserError naming the changes of settings that a fork keeps, if there are any. `from`
/// names the checkpoint.
void refuse_changes(std::vector<std::string> changes,
                    const std::function<bool(const std::string& key)>& keeps,
                    const std::string& from);
/// Checks a tokenizer's checkpoint: also its phases so far and its discriminator have to fit.
void require_forkable(const TokenizerConfig& config, const Checkpoint& checkpoint,
                      const std::string& from);

/// Whether evaluations of a fork with these changes are of other images than before.
bool change_evaluations(const std::vector<std::string>& changes);

/// What a fork writes.
struct ForkContents {
  std::string settings;  ///< its config.yaml
  /// Makes a stored model one of the present format; errors call it `file`.
  std::function<void(TensorFile& model, const std::filesystem::path& file)> convert;
  /// A model of the present format with the fork's settings. `kept` are its metadata that do not
  /// follow from settings.
  std::function<TensorFile(const TensorFile& model, const std::map<std::string, std::string>& kept)>
      with_settings;
};
ForkContents fork_contents(const TokenizerConfig& config);

/// Makes `folder`, whole or not at all, a run as `run` was at `checkpoint`, whose model is of the
/// present format: config.yaml, the checkpoint, the best one if there is any, logs and samples up
/// to there. Throws UserError if something else has come to be in the folder.
void make_fork(const std::filesystem::path& run, const std::filesystem::path& folder,
               const Checkpoint& checkpoint, const ForkContents& contents);

}  // namespace nsvq
