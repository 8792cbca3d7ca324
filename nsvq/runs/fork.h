#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/runs/checkpoint.h"

namespace nsvq {

// A fork: a tokenizer's run that goes on in another folder, as it was at a checkpoint, with other
// settings. The run itself is only read.

/// Throws UserError unless the folder of a fork of `run` is free: missing or empty, and outside of
/// the run.
void require_free_folder(const std::filesystem::path& run, const std::filesystem::path& folder);

/// The settings that differ, each as "key old -> new".
std::vector<std::string> changed_settings(TokenizerConfig old, TokenizerConfig now);

/// Throws UserError naming the settings in which `config` differs from the checkpoint's so that its
/// weights and state do not fit. `from` names the checkpoint.
void require_forkable(const TokenizerConfig& config, const Checkpoint& checkpoint,
                      const std::string& from);

/// Makes `folder`, whole or not at all, a run as `run` was at `checkpoint`, with these settings:
/// config.yaml, the checkpoint, the best one if there is any, logs and samples up to there. Throws
/// UserError if something else has come to be in the folder.
void make_fork(const std::filesystem::path& run, const std::filesystem::path& folder,
               const Checkpoint& checkpoint, const TokenizerConfig& config);

}  // namespace nsvq
