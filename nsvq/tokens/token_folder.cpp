#include "nsvq/tokens/token_folder.h"

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/log.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/files/lock.h"
#include "nsvq/tokens/token_check.h"
#include "nsvq/tokens/token_work.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

/// Throws UserError if the folder contains files of the user. If another worker has begun it
/// meanwhile, its manifest is there before all its other files.
void require_unused(const fs::path& folder) {
  for (const auto& entry : entries_of(folder)) {
    const auto name = entry.path().filename().string();
    const bool manifest_in_making = name.starts_with(fmt::format(".{}.tmp-", kTokenManifest));
    if (name == kLockFile || manifest_in_making || path_exists(folder / kTokenManifest)) continue;
    throw UserError("{}: contains other files and no {}; choose another folder for --out",
                    folder.string(), kTokenManifest);
  }
}

int64_t begin_of_part(int64_t shards, int64_t part, int64_t parts) { return shards * part / parts; }

/// This worker's part from its beginning, then the remaining parts from their ends: their workers
/// begin at the beginning, so that all read consecutive images as long as possible.
std::vector<int64_t> order_of_work(int64_t shards, WorkPart part) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < part.count; ++i) {
    const int64_t number = (part.number - 1 + i) % part.count;
    const int64_t begin = begin_of_part(shards, number, part.count);
    const int64_t end = begin_of_part(shards, number + 1, part.count);
    for (int64_t k = 0; k < end - begin; ++k) order.push_back(i == 0 ? begin + k : end - 1 - k);
  }
  return order;
}

}  // namespace

TokenFolder::TokenFolder(fs::path path, const TokenSettings& settings, const std::string& source,
                         WorkPart part, std::chrono::seconds claim_timeout)
    : path_(std::move(path)), claim_timeout_(claim_timeout) {
  make_named_folder(path_);
  begin(settings, source);
  order_ = order_of_work(shards(), part);
  check_shards(begin_of_part(shards(), part.number, part.count) -
               begin_of_part(shards(), part.number - 1, part.count));
}

void TokenFolder::begin(const TokenSettings& settings, const std::string& source) {
  if (!path_exists(path_ / kTokenManifest)) {
    require_unused(path_);
    manifest_ = {settings, source, false, {}};
    if (create_token_manifest(path_, manifest_)) return;
  }
  manifest_ = read_token_manifest(path_);
  if (const auto found = difference(settings, manifest_.settings)) {
    throw UserError(
        "{}: contains tokens made with other settings: {}; choose another folder for --out",
        path_.string(), found->text);
  }
  auto& classes = manifest_.settings.classes;  // earlier versions did not write them
  if (classes.empty()) classes = settings.classes;
}

/// Compares checksums of the first `own` shards in order_; checks only the existence of the rest.
void TokenFolder::check_shards(int64_t own) {
  refresh();
  std::set<int64_t> files;
  for (const auto& entry : entries_of(path_)) {
    const auto number = token_shard_number(entry.path().filename().string());
    if (number) files.insert(*number);
  }
  for (int64_t i = 0; i < shards(); ++i) {
    const int64_t number = order_[i];
    if (!recorded_.contains(number)) continue;
    if (!files.contains(number) || (i < own && damage_of(number))) damaged_.insert(number);
  }
}

void TokenFolder::refresh() {
  auto work = list_token_work(path_);
  recorded_ = std::move(work.recorded);
  claimed_ = std::move(work.claimed);
  // The last worker writes the manifest before it removes the records.
  if (std::ssize(recorded_) < shards()) {
    auto manifest = read_token_manifest(path_);
    manifest_.complete = manifest.complete;
    manifest_.shards = std::move(manifest.shards);
  }
  for (const auto& record : manifest_.shards) {
    if (const auto number = token_shard_number(record.file)) recorded_.insert(*number);
  }
}

std::optional<std::string> TokenFolder::damage_of(int64_t number) const {
  const auto record = shard_record_path(path_, number);
  const auto damage = [&](const ShardRecord& found) {
    const auto of_record = damage_of_record(manifest_, found);
    return of_record ? of_record : damage_of_shard(path_, found);
  };
  try {
    if (path_exists(record)) return damage(read_shard_record(record));
  } catch (const UserError&) {
    return "has a damaged record";
  }
  const auto is_it = [&](const ShardRecord& shard) {
    return shard.file == token_shard_name(number);
  };
  const auto found = std::ranges::find_if(manifest_.shards, is_it);
  if (found == manifest_.shards.end()) return "is missing";
  return damage(*found);
}

std::vector<int64_t> TokenFolder::unfinished() const {
  std::vector<int64_t> numbers;
  for (const int64_t number : order_) {
    if (!recorded_.contains(number) || damaged_.contains(number)) numbers.push_back(number);
  }
  return numbers;
}

ClaimExpiry TokenFolder::expiry() const {
  return {time_on_disk(path_ / kTokenWork), claim_timeout_};
}

std::optional<ShardTask> TokenFolder::take() try {
  return take_unclaimed();
} catch (const RunError&) {
  // Another worker may have completed the folder meanwhile and removed `.work`.
  return take_unclaimed();
}

std::optional<ShardTask> TokenFolder::take_unclaimed() {
  refresh();
  const auto numbers = unfinished();
  if (numbers.empty()) return std::nullopt;
  const auto now = expiry();
  const auto claimed_before = claimed_;
  for (const bool claimed : {false, true}) {  // claimed shards last: their claims may be abandoned
    for (const int64_t number : numbers) {
      if (claimed_before.contains(number) != claimed) continue;
      if (auto claim = try_claim(number, now)) {
        wait_ = {};
        return ShardTask{number, std::move(claim)};
      }
    }
  }
  return std::nullopt;
}

/// nullptr also if the shard is finished by now.
std::unique_ptr<Claim> TokenFolder::try_claim(int64_t number, const ClaimExpiry& expiry) {
  auto claim = Claim::try_take(shard_claim_path(path_, number), expiry);
  if (!claim) return nullptr;
  refresh();
  if (!recorded_.contains(number)) return claim;
  if (!damaged_.contains(number)) return nullptr;
  if (const auto damage = damage_of(number)) {
    log("{} {}; writing it again", (path_ / token_shard_name(number)).string(), *damage);
    return claim;
  }
  damaged_.erase(number);  // repaired, here or elsewhere
  return nullptr;
}

void TokenFolder::add(const ShardTask& task, const TokenShard& shard,
                      std::vector<std::string> broken) const {
  const auto path = path_ / token_shard_name(task.number);
  try {
    const bool held = task.claim->held();
    if (held) write_token_shard(path, shard, manifest_.settings.codes);
    if (held && task.claim->held()) {
      auto record = describe_shard(path);
      record.images = std::ssize(shard.keys);
      record.broken = std::move(broken);
      return write_shard_record(shard_record_path(path_, task.number), record);
    }
  } catch (const std::exception&) {
    if (task.claim->held()) throw;
  }
  log("{}: was left to another worker, since this one's claim had expired", path.string());
}

void TokenFolder::wait() {
  using namespace std::chrono_literals;
  const auto longer = std::clamp<std::chrono::milliseconds>(2 * wait_, 20ms, 5s);
  if (wait_ < 1s && longer >= 1s) {
    log("waiting for other workers: shards not finished: {}", unfinished().size());
  }
  wait_ = longer;
  std::this_thread::sleep_for(wait_);
}

TokenManifest TokenFolder::finish() {
  try {
    auto manifest = read_token_progress(path_);
    manifest.settings.classes = manifest_.settings.classes;
    manifest.complete = std::ssize(manifest.shards) == shards();
    if (manifest != read_token_manifest(path_)) write_token_manifest(path_, manifest);
  } catch (const std::exception&) {
    // Another worker has done the same at the same time, and removed the records.
    if (!read_token_manifest(path_).complete) throw;
  }
  try {
    if (read_token_manifest(path_).complete) remove_token_work(path_, expiry());
  } catch (const RunError&) {
    std::error_code ignored;  // another worker is removing it
    fs::remove(path_ / kTokenWork, ignored);
  }
  auto manifest = read_token_manifest(path_);
  if (manifest.complete) return manifest;
  throw RunError("{}: records of finished shards were removed; run the same command again",
                 path_.string());
}

int64_t TokenFolder::shards() const {
  const auto& settings = manifest_.settings;
  return (settings.images + settings.shard_size - 1) / settings.shard_size;
}

int64_t TokenFolder::first_image(int64_t number) const {
  return std::min(number * manifest_.settings.shard_size, manifest_.settings.images);
}

int64_t TokenFolder::images_done() const {
  int64_t images = 0;
  for (const int64_t number : recorded_) {
    if (!damaged_.contains(number)) images += first_image(number + 1) - first_image(number);
  }
  return images;
}

}  // namespace nsvq
