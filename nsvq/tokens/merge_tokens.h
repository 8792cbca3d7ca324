#pragma once

#include <filesystem>
#include <vector>

#include "nsvq/tokens/token_manifest.h"

namespace nsvq {

/// Joins finished folders of tokens, in the order given, into the new folder `out`, which appears
/// whole: shards as hard links where the file system has them, else as copies. Throws UserError,
/// naming the first difference, for folders of another model, other settings or other names of
/// classes, and for folders that are incomplete or damaged.
TokenManifest merge_tokens(const std::vector<std::filesystem::path>& folders,
                           const std::filesystem::path& out);

}  // namespace nsvq
