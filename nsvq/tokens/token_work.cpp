#include "nsvq/tokens/token_work.h"

#include <unistd.h>

#include <map>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/io/files/atomic_file.h"
#include "nsvq/io/files/file.h"
#include "nsvq/tokens/token_shard.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

constexpr auto kClaim = ".claim";
constexpr auto kRecord = ".json";

/// Names of the files in the subfolder; errors end the list, since another worker may remove the
/// folder at any moment. Throws UserError if the subfolder is a link, which may lead to the user's
/// files.
std::vector<fs::path> files_of_work(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  if (fs::is_symlink(folder / kTokenWork, error)) {
    throw UserError("{}: a link, and tokenize keeps its work in a folder of its own; remove it",
                    (folder / kTokenWork).string());
  }
  for (auto entry = entries_of(folder / kTokenWork, error); !error && entry != end(entry);
       entry.increment(error)) {
    files.push_back(entry->path());
  }
  return files;
}

/// Whether workers give this name: to a claim or record, to a claim that was moved aside, or to the
/// file of time_on_disk (claim.h).
bool is_of_work(const std::string& name) {
  const auto is_of_shard = [](const fs::path& file, const char* ending) {
    const auto number = token_shard_number(file.string());
    return number && file == fs::path(token_shard_name(*number)).replace_extension(ending);
  };
  if (is_of_shard(name, kClaim) || is_of_shard(name, kRecord)) return true;
  const size_t aside = name.find(".aside-");
  if (aside != std::string::npos) {
    return name.starts_with('.') && is_of_shard(name.substr(1, aside - 1), kClaim);
  }
  return name.starts_with(".time-");
}

}  // namespace

fs::path shard_claim_path(const fs::path& folder, int64_t number) {
  return folder / kTokenWork / fs::path(token_shard_name(number)).replace_extension(kClaim);
}

fs::path shard_record_path(const fs::path& folder, int64_t number) {
  return folder / kTokenWork / fs::path(token_shard_name(number)).replace_extension(kRecord);
}

TokenWork list_token_work(const fs::path& folder) {
  TokenWork work;
  for (const auto& file : files_of_work(folder)) {
    const auto number = token_shard_number(file.filename().string());
    if (number && file.extension() == kClaim) work.claimed.insert(*number);
    if (number && file.extension() == kRecord) work.recorded.insert(*number);
  }
  return work;
}

void remove_token_work(const fs::path& folder, const ClaimExpiry& expiry) {
  bool held = false;
  std::error_code ignored;
  for (const auto& file : files_of_work(folder)) {
    if (file.extension() == kClaim && !Claim::is_free(file, expiry)) {
      held = true;
    } else if (is_of_work(file.filename().string())) {
      ::unlink(file.c_str());
    }
  }
  remove_unfinished(folder / kTokenWork, {"tokens-"});
  fs::remove(folder / kTokenWork, ignored);  // fails if it contains a claim or files of the user
  if (!held) remove_unfinished(folder, {"tokens-", kTokenManifest});
}

TokenManifest read_token_progress(const fs::path& folder) {
  // Records first: the last worker writes the manifest before it removes them.
  std::vector<ShardRecord> records;
  for (const int64_t number : list_token_work(folder).recorded) {
    const auto path = shard_record_path(folder, number);
    if (path_exists(path)) records.push_back(read_shard_record(path));
  }
  auto manifest = read_token_manifest(folder);
  if (records.empty()) return manifest;
  std::map<int64_t, ShardRecord> shards;
  for (auto* some : {&records, &manifest.shards}) {
    for (auto& record : *some) {
      const auto number = token_shard_number(record.file);
      if (number) shards.emplace(*number, std::move(record));
    }
  }
  manifest.shards.clear();
  for (auto& [number, record] : shards) manifest.shards.push_back(std::move(record));
  return manifest;
}

}  // namespace nsvq
