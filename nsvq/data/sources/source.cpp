#include "nsvq/data/sources/source.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <mutex>
#include <span>
#include <string_view>
#include <system_error>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/text.h"
#include "nsvq/data/sources/combined_sources.h"
#include "nsvq/data/sources/dead_leaves.h"
#include "nsvq/data/sources/folder_source.h"
#include "nsvq/data/sources/image_names.h"
#include "nsvq/data/sources/npz_source.h"
#include "nsvq/data/sources/part.h"
#include "nsvq/data/sources/patterns.h"
#include "nsvq/data/sources/selected_source.h"
#include "nsvq/data/sources/tar_source.h"
#include "nsvq/data/streams/pipe_commands.h"
#include "nsvq/data/streams/pipe_source.h"
#include "nsvq/io/files/sha256.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view builtin = "builtin:";

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool is_shard(const fs::path& path) { return is_shard_name(path.filename().string()); }

bool is_image(const fs::path& path) { return is_image_name(path.filename().string()); }

/// The log of broken images for what `spec` names, shared by all sources that are open at the same
/// time, such as training and validation images of a run on one folder. `first`: it is new.
std::shared_ptr<BrokenLog> shared_log(const std::string& spec, bool& first) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<BrokenLog>> logs;
  const std::lock_guard lock(mutex);
  std::erase_if(logs, [](const auto& entry) { return entry.second.expired(); });
  auto log = logs[spec].lock();
  first = !log;
  if (!log) logs[spec] = log = std::make_shared<BrokenLog>();
  return log;
}

void log_passed_over(const std::string& where, const PassedOver& others) {
  if (others.text().empty()) return;
  const auto advice = others.advice();
  log("{}: skipped {} (only {} files are read){}", where, others.text(), kImageEndings,
      advice.empty() ? "" : "; " + advice);
}

/// `announce`: logs which files are skipped.
std::unique_ptr<Source> open_folder(const fs::path& folder, const ImageLimits& limits,
                                    bool announce) {
  auto source = std::make_unique<FolderSource>(folder, limits);
  if (announce) log_passed_over(folder.string(), source->passed_over());
  return source;
}

/// A path without "x/..", for messages, where that is the same file: behind a link it is another.
fs::path without_detours(const fs::path& path) {
  if (std::find(path.begin(), path.end(), "..") == path.end()) return path;
  const auto normal = path.lexically_normal();
  std::error_code error;
  return fs::equivalent(path, normal, error) ? normal : path;
}

/// The paths that a text names. Errors say which parts there are if it may be meant to name one.
std::vector<fs::path> paths_of(const std::string& spec) try {
  auto paths = expand_paths(spec);
  for (auto& path : paths) path = without_detours(path);
  return paths;
} catch (const UserError&) {
  const size_t mark = spec.rfind('#');
  std::error_code ignored;
  if (mark == std::string::npos || !fs::exists(spec.substr(0, mark), ignored)) throw;
  throw UserError(
      "'{}' does not exist, and {} is no part of {}; parts are train, tune, test, all or hashes "
      "such as 0.1..0.2, behind all of a list",
      spec, quote(spec.substr(mark + 1)), spec.substr(0, mark));
}

std::unique_ptr<Source> open_files(const std::vector<fs::path>& paths, const std::string& spec,
                                   const ImageLimits& limits, bool announce) {
  const auto folder = std::find_if(paths.begin(), paths.end(), is_folder);
  if (folder != paths.end()) {
    throw UserError(
        "{} is a folder, which cannot stand between commas; give folders as sources of their own",
        folder->string());
  }
  if (std::all_of(paths.begin(), paths.end(), is_shard)) {
    auto source = std::make_unique<TarSource>(paths, limits);
    if (announce) log_passed_over(spec, source->passed_over());
    return source;
  }
  if (std::all_of(paths.begin(), paths.end(), is_image)) {
    return std::make_unique<FolderSource>(paths, limits);
  }
  const auto odd = std::find_if(paths.begin(), paths.end(), [](const fs::path& path) {
    return !is_shard(path) && !is_image(path);
  });
  if (odd == paths.end()) throw UserError("{} mixes tar shards and images", quote(spec, 200));
  if (const auto format = unread_format(odd->string()); !format.empty()) {
    throw UserError("{}: {}", odd->string(), convert_advice(format, "it"));
  }
  throw UserError("{} is neither a folder nor a {} or {} file; convert it or name another",
                  odd->string(), kImageEndings, kShardEndings);
}

std::unique_ptr<Source> open_all(const std::string& spec, const ImageLimits& limits,
                                 bool announce) {
  if (spec.empty()) throw UserError("no images given: name a folder, tar shards or an image");
  if (spec.starts_with(builtin)) return open_builtin(spec.substr(builtin.size()));
  const auto paths = paths_of(spec);
  if (paths.size() == 1 && is_folder(paths[0])) return open_folder(paths[0], limits, announce);
  if (paths.size() == 1 && paths[0].extension() == ".npz") {
    return std::make_unique<NpzSource>(paths[0], limits);
  }
  return open_files(paths, spec, limits, announce);
}

/// Opens an item of Sources; its part may be empty.
std::unique_ptr<Source> open_one(const std::string& item, const ImageLimits& limits,
                                 bool announce) {
  const NamedPart named(item);
  if (named.part.empty()) return open_all(item, limits, announce);
  const auto part = part_of(item);
  const auto broken = shared_log(named.source, announce);  // parts of a source announce it once
  auto whole = open_all(named.source, limits, announce);
  whole->set_broken_log(broken);
  auto images = images_in(*whole, part, 0, whole->size());
  return std::make_unique<SelectedSource>(std::move(whole), std::move(images));
}

std::unique_ptr<Source> open_several(const Sources& sources, const ImageLimits& limits,
                                     bool announce) {
  std::vector<JoinedSource::Part> parts;
  std::map<std::string, int> folders;  // name -> how many sources had it so far
  for (const auto& item : sources.items) {
    std::string prefix;
    if (const auto source = NamedPart(item).source; is_folder(source)) {
      const auto path = fs::absolute(source).lexically_normal();
      prefix = (path.has_filename() ? path : path.parent_path()).filename().string();
      const int times = ++folders[prefix];
      prefix += times == 1 ? "/" : fmt::format("-{}/", times);
    }
    parts.push_back({open_one(item, limits, announce), prefix});
  }
  return std::make_unique<JoinedSource>(std::move(parts));
}

std::unique_ptr<Source> open_pipes(const Sources& sources, const ImageLimits& limits,
                                   int64_t retries) {
  auto whole =
      std::make_unique<PipeSource>(commands_of(sources), limits, Retries{.times = retries});
  const auto is_whole = [](const auto& item) { return NamedPart(item).part.empty(); };
  if (std::ranges::all_of(sources.items, is_whole)) return whole;
  std::vector<int64_t> images;
  size_t shard = 0;
  for (const auto& item : sources.items) {
    Sources one = item;
    one.pipes_allowed = sources.pipes_allowed;
    const auto first = whole->shard_starts()[shard];
    const auto end = whole->shard_starts()[shard += commands_of(one).size()];
    std::ranges::copy(images_in(*whole, part_of(item), first, end), std::back_inserter(images));
  }
  return std::make_unique<SelectedSource>(std::move(whole), std::move(images));
}

template <typename Load>
bool is_readable(const Load& load, const std::function<void(const Image&)>& use) {
  try {
    const Image image = load();
    if (use) use(image);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

/// Each shard is read once, from its first image of interest to its last.
std::optional<int64_t> first_in_shards(const SequentialShards& shards,
                                       std::span<const int64_t> images,
                                       const std::function<void(const Image&)>& use) {
  const auto& starts = shards.shard_starts();
  std::optional<int64_t> found;
  while (!images.empty() && !found) {
    const auto next = std::ranges::upper_bound(starts, images.front());
    const auto here = images.first(std::ranges::lower_bound(images, *next) - images.begin());
    const auto visit = [&](int64_t index, const std::vector<std::byte>& bytes) {
      if (!std::ranges::binary_search(here, index)) return true;
      if (is_readable([&] { return shards.decode(index, bytes); }, use)) found = index;
      return !found;
    };
    shards.read(next - starts.begin() - 1, here.front(), here.back() + 1, visit, {});
    images = images.subspan(here.size());
  }
  return found;
}

}  // namespace

void BrokenLog::report(int64_t image, std::string_view why) {
  const std::lock_guard lock(mutex_);
  if (known_.size() > most_named || !known_.insert(image).second) return;
  if (known_.size() <= most_named) {
    log("skipping a broken image: {}", why);
  } else {
    log("more than {} images are broken; the others are skipped without a line each", most_named);
  }
}

std::string keys_sha256(const Source& source) {
  Sha256 hash;
  for (int64_t i = 0; i < source.size(); ++i) {
    const auto key = source.key(i);
    hash.add(std::as_bytes(std::span(key.c_str(), key.size() + 1)));
  }
  return hash.hex();
}

std::unique_ptr<Source> open_source(const Sources& sources, const ImageLimits& limits,
                                    int64_t retries) {
  bool first = false;
  const auto broken = shared_log(sources.text(), first);
  std::unique_ptr<Source> source;
  if (any_pipe(sources)) {
    source = open_pipes(sources, limits, retries);
  } else if (sources.items.size() <= 1) {
    source = open_one(sources.text(), limits, first);
  } else {
    source = open_several(sources, limits, first);
  }
  if (source->size() == 0) {
    throw UserError("{}: no image is in this part; take a larger one or more images",
                    sources.text());
  }
  source->set_broken_log(broken);
  return source;
}

std::optional<int64_t> first_readable(const Source& source, const std::vector<int64_t>& images,
                                      const std::function<void(const Image&)>& use) {
  if (const auto* shards = source.shards()) return first_in_shards(*shards, images, use);
  const auto found = std::ranges::find_if(
      images, [&](int64_t index) { return is_readable([&] { return source.load(index); }, use); });
  return found == images.end() ? std::nullopt : std::optional(*found);
}

}  // namespace nsvq
