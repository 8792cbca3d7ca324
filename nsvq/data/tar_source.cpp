#include "nsvq/data/tar_source.h"

#include <charconv>
#include <string_view>
#include <unordered_map>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"

namespace nsvq {

namespace {

std::string_view without_ending(std::string_view name) { return name.substr(0, name.rfind('.')); }

/// Removes the "./" that `tar c .` puts before names.
std::string plain_name(std::string_view name) {
  while (name.starts_with("./")) name.remove_prefix(2);
  return std::string(name);
}

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string joined(const std::vector<std::filesystem::path>& paths) {
  if (paths.size() == 1) return paths[0].string();
  return fmt::format("{} to {} ({} files)", paths.front().string(), paths.back().string(),
                     paths.size());
}

}  // namespace

TarSource::TarSource(const std::vector<std::filesystem::path>& shards, const ImageLimits& limits)
    : paths_(shards), limits_(limits) {
  for (const auto& path : shards) {
    shards_.emplace_back(path);
    add_shard(static_cast<int32_t>(shards_.size() - 1));
  }
  if (entries_.empty()) {
    const auto others = passed_over_.text();
    throw UserError(
        "no {} entry in {}{}", kImageEndings, joined(shards),
        others.empty() ? "" : fmt::format(" (but {}); {}", others, passed_over_.advice()));
  }
  classes_ = folder_classes(keys_);
}

void TarSource::add_shard(int32_t shard) {
  const auto& entries = shards_[shard].entries();
  std::unordered_map<std::string_view, int32_t> class_files;
  for (size_t i = 0; i < entries.size(); ++i) {
    const std::string_view name = entries[i].name;
    if (plain_ending(name) == ".cls") class_files[without_ending(name)] = static_cast<int32_t>(i);
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    const std::string& name = entries[i].name;
    if (!unread_format(name).empty()) passed_over_.add(name);
    if (!is_image_name(name)) continue;
    const auto found = class_files.find(without_ending(name));
    entries_.push_back(
        {shard, static_cast<int32_t>(i), found == class_files.end() ? -1 : found->second});
    numbered_ |= found != class_files.end();
    keys_.push_back(plain_name(name));
  }
}

std::string TarSource::name_of(const Entry& entry, int32_t number) const {
  return paths_[entry.shard].string() + ":" + shards_[entry.shard].entries()[number].name;
}

std::vector<std::string> TarSource::classes() const {
  return numbered_ ? std::vector<std::string>{} : classes_.names;
}

int64_t TarSource::label(int64_t index) const {
  const Entry& entry = entries_.at(index);
  if (entry.class_file < 0) return classes_.labels[index];
  const TarReader& shard = shards_[entry.shard];
  const TarEntry& file = shard.entries()[entry.class_file];
  constexpr int64_t longest = 100;  // a number and blanks
  if (file.size > longest) {
    throw UserError("{}: expected a class number, found {} bytes", name_of(entry, entry.class_file),
                    file.size);
  }
  const auto bytes = shard.read(file);
  const auto text = trimmed({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  int64_t label = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), label);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || label < 0) {
    throw UserError("{}: expected a class number, found {}", name_of(entry, entry.class_file),
                    quote(text));
  }
  return label;
}

Image TarSource::load(int64_t index) const {
  const Entry& entry = entries_.at(index);
  const TarReader& shard = shards_[entry.shard];
  const TarEntry& file = shard.entries()[entry.image];
  const auto name = name_of(entry, entry.image);
  check_image_bytes(static_cast<uint64_t>(file.size), limits_, name);
  return decode_image(shard.read(file), name, limits_);
}

}  // namespace nsvq
