#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "nsvq/tokens/claim.h"
#include "nsvq/tokens/token_manifest.h"
#include "nsvq/tokens/token_shard.h"

namespace nsvq {

/// Which of `count` equal parts of the work, counted from 1.
struct WorkPart {
  int64_t number = 1, count = 1;
};

/// A shard to be made, which other workers leave alone meanwhile.
struct ShardTask {
  int64_t number = 0;
  std::unique_ptr<Claim> claim;
};

/// A folder of tokens that any number of workers fill, on one machine or on several that share the
/// disk. The first writes the manifest, without shards, and a worker of other settings is refused.
/// In the subfolder `.work` each shard under construction has a claim and each finished one a
/// record. The last worker writes the manifest from the records and removes `.work`.
///
/// Workers may be killed at any moment. Two that make the same shard write the same bytes.
class TokenFolder {
 public:
  /// Begins the folder or continues it: `part` is the worker's own. Throws UserError if the folder
  /// contains other tokens or other files.
  TokenFolder(std::filesystem::path path, const TokenSettings& settings, const std::string& source,
              WorkPart part, std::chrono::seconds claim_timeout);

  /// A shard that nobody makes: of the own part while there are any, then of others. None if there
  /// is none now.
  std::optional<ShardTask> take();
  /// Writes the task's shard, unless another worker has taken it over in the meantime. May run in
  /// another thread.
  void add(const ShardTask& task, const TokenShard& shard, std::vector<std::string> broken) const;
  /// Whether all shards were finished at the last `take`.
  bool finished() const { return unfinished().empty(); }
  /// Waits a moment for workers that make the rest.
  void wait();
  /// Completes the manifest and removes what workers have left. All shards must be finished.
  TokenManifest finish();

  /// Images of the source from `first_image(n)` to before `first_image(n + 1)` are in shard n.
  int64_t first_image(int64_t number) const;
  /// In shards finished at the last `take`.
  int64_t images_done() const;

 private:
  int64_t shards() const;
  void begin(const TokenSettings& settings, const std::string& source);
  void check_shards(int64_t own);
  void look();
  std::vector<int64_t> unfinished() const;
  std::optional<ShardTask> take_unclaimed();
  std::unique_ptr<Claim> try_claim(int64_t number, const ClaimExpiry& expiry);
  std::optional<std::string> damage_of(int64_t number) const;
  ClaimExpiry expiry() const;

  std::filesystem::path path_;
  std::chrono::seconds claim_timeout_;
  TokenManifest manifest_;
  std::vector<int64_t> order_;            ///< in which this worker takes shards
  std::set<int64_t> recorded_, claimed_;  ///< as of the last look at the disk
  std::set<int64_t> damaged_;             ///< recorded, but found to be damaged
  std::chrono::milliseconds wait_{0};
};

}  // namespace nsvq
