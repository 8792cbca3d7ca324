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

/// One of `count` equal parts of the work, counted from 1.
struct WorkPart {
  int64_t number = 1, count = 1;
};

/// A shard to be made; its claim keeps all other workers off it.
struct ShardTask {
  int64_t number = 0;
  std::unique_ptr<Claim> claim;
};

/// A folder of tokens that any number of workers fill, on one machine or on several that share the
/// disk. The first writes the manifest, without shards; workers with different settings are
/// refused. In the subfolder `.work` each shard under construction has a claim and each finished
/// one a record. The last worker writes the manifest from the records and removes `.work`.
///
/// Workers may be killed at any moment. Two that make the same shard write the same bytes.
class TokenFolder {
 public:
  /// Begins the folder or continues it. `part` is the part that this worker begins with. Throws
  /// UserError if the folder contains tokens with different settings or any other files.
  TokenFolder(std::filesystem::path path, const TokenSettings& settings, const std::string& source,
              WorkPart part, std::chrono::seconds claim_timeout);

  /// Claims an unfinished shard, first of this worker's part, then of the remaining parts. nullopt
  /// if all are finished or claimed.
  std::optional<ShardTask> take();
  /// Writes the task's shard, unless its claim has expired and another worker has it. From any
  /// thread.
  void add(const ShardTask& task, const TokenShard& shard, std::vector<std::string> broken) const;
  /// Whether all shards were finished at the last `take`.
  bool finished() const { return unfinished().empty(); }
  /// Sleeps for a moment, while other workers make the remaining shards.
  void wait();
  /// Completes the manifest and removes what workers have left. All shards must be finished.
  TokenManifest finish();

  /// Images of the source from `first_image(n)` to before `first_image(n + 1)` are in shard n.
  int64_t first_image(int64_t number) const;
  /// Images in shards that were finished at the last `take`.
  int64_t images_done() const;

 private:
  int64_t shards() const;
  void begin(const TokenSettings& settings, const std::string& source);
  void check_shards(int64_t own);
  void refresh();
  std::vector<int64_t> unfinished() const;
  std::optional<ShardTask> take_unclaimed();
  std::unique_ptr<Claim> try_claim(int64_t number, const ClaimExpiry& expiry);
  std::optional<std::string> damage_of(int64_t number) const;
  ClaimExpiry expiry() const;

  std::filesystem::path path_;
  std::chrono::seconds claim_timeout_;
  TokenManifest manifest_;
  std::vector<int64_t> order_;            ///< shard numbers in this worker's order
  std::set<int64_t> recorded_, claimed_;  ///< as of the last `refresh`
  std::set<int64_t> damaged_;             ///< recorded, but their files are damaged
  std::chrono::milliseconds wait_{0};
};

}  // namespace nsvq
