#include "nsvq/data/streams/pipe_source.h"

#include <algorithm>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/data/sources/image_names.h"
#include "nsvq/io/formats/piped_tar.h"

namespace nsvq {

namespace {

[[noreturn]] void fail_unlisted(const std::string& command, size_t unlisted, size_t all) {
  tell_ignored_variable();
  if (pipe_index_file(command).empty()) {
    throw UserError(
        "{}: no cache folder for the list of its images; set XDG_CACHE_HOME or HOME and run `nsvq "
        "images index`",
        shown_command(command));
  }
  throw UserError(
      "{}: the images of {} of {} commands are not counted yet; run `nsvq images index` once with "
      "the same 'pipe:...'",
      shown_command(command), unlisted, all);
}

}  // namespace

PipeSource::PipeSource(std::vector<std::string> commands, const ImageLimits& limits,
                       const Retries& retries)
    : commands_(std::move(commands)), starts_{0}, limits_(limits), retries_(retries) {
  std::vector<std::string> unlisted;
  for (const auto& command : commands_) {
    auto images = load_pipe_index(command);
    if (!images) {
      unlisted.push_back(command);
      continue;
    }
    for (auto& image : *images) {
      keys_.push_back(plain_name(image.name));
      numbered_ |= image.label >= 0;
      images_.push_back(std::move(image));
    }
    starts_.push_back(std::ssize(images_));
  }
  if (!unlisted.empty()) fail_unlisted(unlisted[0], unlisted.size(), commands_.size());
  if (images_.empty()) {
    throw UserError("{}: writes no {} entry", shown_command(commands_.at(0)), kImageEndings);
  }
  classes_ = folder_classes(keys_);
}

int64_t PipeSource::label(int64_t index) const {
  const int64_t own = images_.at(index).label;
  return own >= 0 ? own : classes_.labels[index];
}

std::vector<std::string> PipeSource::classes() const {
  return numbered_ ? std::vector<std::string>{} : classes_.names;
}

int64_t PipeSource::shard_of(int64_t index) const {
  return std::upper_bound(starts_.begin(), starts_.end(), index) - starts_.begin() - 1;
}

void PipeSource::require_listed(int64_t shard, int64_t index, const std::string& name,
                                int64_t bytes) const {
  if (index < starts_[shard + 1] && images_[index].name == name && images_[index].bytes == bytes)
    return;
  throw RunError(
      "{}: writes different images than when they were counted ({} of {} bytes is new); "
      "run `nsvq images index --again`",
      shown_command(commands_[shard]), quote(name), bytes);
}

void PipeSource::read(int64_t shard, int64_t first, int64_t end, const Take& take,
                      const std::stop_token& stop) const {
  retry_command(retries_, stop, [&] {
    // Images handed over before a failure are not handed over again.
    read_once(
        shard, first, end,
        [&](int64_t index, std::vector<std::byte> bytes) {
          first = index + 1;
          return take(index, std::move(bytes));
        },
        stop);
  });
}

void PipeSource::read_once(int64_t shard, int64_t first, int64_t end, const Take& take,
                           const std::stop_token& stop) const {
  int64_t index = starts_[shard];
  const bool whole = end == starts_[shard + 1];
  bool wanted = true;
  visit_piped_tar(commands_[shard], stop, [&](const TarEntry& entry, const ReadContents& contents) {
    if (!is_image_name(entry.name)) return true;
    require_listed(shard, index, entry.name, entry.size);
    if (index >= first) {
      // Without contents for an image that is too large: decode refuses it.
      const bool fits = static_cast<uint64_t>(entry.size) <= limits_.file_bytes;
      wanted = take(index, fits ? contents() : std::vector<std::byte>());
    }
    ++index;
    return wanted && (whole || index < end);
  });
  if (!wanted || index >= end) return;
  throw RunError(
      "{}: writes fewer images than when they were counted ({}, {} then); run "
      "`nsvq images index --again`",
      shown_command(commands_[shard]), index - starts_[shard], starts_[shard + 1] - starts_[shard]);
}

Image PipeSource::decode(int64_t index, std::span<const std::byte> bytes) const {
  const auto name = shown_command(commands_[shard_of(index)]) + ": " + images_[index].name;
  check_image_bytes(static_cast<uint64_t>(images_[index].bytes), limits_, name);
  return decode_image(bytes, name, limits_);
}

Image PipeSource::load(int64_t index) const {
  std::vector<std::byte> bytes;
  {
    const std::lock_guard lock(mutex_);
    if (!recent_.contains(index)) fill_recent(index);
    bytes = recent_.at(index);
  }
  return decode(index, bytes);
}

/// Reads ahead, since callers mostly ask for images in order. The caller holds mutex_.
void PipeSource::fill_recent(int64_t index) const {
  constexpr int64_t most_images = 1024;
  constexpr size_t most_bytes = size_t{1} << 28;
  recent_.clear();
  size_t held = 0;
  const int64_t shard = shard_of(index);
  read(
      shard, index, std::min(index + most_images, starts_[shard + 1]),
      [&](int64_t next, std::vector<std::byte> bytes) {
        held += bytes.size();
        recent_[next] = std::move(bytes);
        return held < most_bytes;
      },
      std::stop_token());
}

}  // namespace nsvq
