#pragma once

#include <cstdint>
#include <filesystem>
#include <set>

#include "nsvq/tokens/claim.h"
#include "nsvq/tokens/token_manifest.h"

namespace nsvq {

/// Subfolder of an unfinished folder of tokens in which its workers keep, for each shard, a claim
/// (tokens-00000.claim) while it is made and a record (tokens-00000.json) once it is finished.
inline constexpr auto kTokenWork = ".work";

std::filesystem::path shard_claim_path(const std::filesystem::path& folder, int64_t number);
std::filesystem::path shard_record_path(const std::filesystem::path& folder, int64_t number);

/// Numbers of the shards that have one or the other. Throws UserError if the subfolder is a link.
struct TokenWork {
  std::set<int64_t> recorded, claimed;
};
TokenWork list_token_work(const std::filesystem::path& folder);

/// Removes what workers have left in the subfolder, the subfolder if it is empty then, and all
/// unfinished files, but no claim that a worker still holds: then that worker has to. Throws
/// UserError if the subfolder is a link.
void remove_token_work(const std::filesystem::path& folder, const ClaimExpiry& expiry);

/// The manifest, with the shards that workers have recorded but not yet entered there. Throws
/// UserError.
TokenManifest read_token_progress(const std::filesystem::path& folder);

}  // namespace nsvq
