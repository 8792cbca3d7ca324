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

/// Numbers of the shards with a record or a claim.
struct TokenWork {
  std::set<int64_t> recorded, claimed;
};
/// Throws UserError if the subfolder is a link.
TokenWork list_token_work(const std::filesystem::path& folder);

/// Removes workers' files in the subfolder, the subfolder if it is then empty, and all unfinished
/// files. Claims that a worker still holds stay, for that worker to remove. Throws UserError if the
/// subfolder is a link.
void remove_token_work(const std::filesystem::path& folder, const ClaimExpiry& expiry);

/// The manifest with all recorded shards, including those that are not yet entered in it. Throws
/// UserError.
TokenManifest read_token_progress(const std::filesystem::path& folder);

}  // namespace nsvq
