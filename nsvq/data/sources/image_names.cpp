#include "nsvq/data/sources/image_names.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <iterator>
#include <set>
#include <system_error>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/images/image.h"

namespace nsvq {

namespace {

constexpr int64_t kLongestClassNumber = 100;  // bytes of a .cls entry

bool ends_with(std::string_view name, std::string_view ending) {
  if (name.size() < ending.size()) return false;
  const auto same = [](char a, char b) { return lower_case(a) == b; };
  return std::equal(name.end() - std::ssize(ending), name.end(), ending.begin(), same);
}

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool ends_in_any(std::string_view path, std::initializer_list<std::string_view> endings) {
  const std::string_view name = file_name(path);
  if (name.empty() || name[0] == '.') return false;
  return std::any_of(endings.begin(), endings.end(),
                     [&](std::string_view ending) { return ends_with(name, ending); });
}

std::string first_folder(const std::string& key) {
  const size_t slash = key.find('/');
  return slash == std::string::npos ? "" : key.substr(0, slash);
}

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

bool is_image_name(std::string_view name) {
  return ends_in_any(name, {".jpg", ".jpeg", ".png", ".webp"});
}

bool is_shard_name(std::string_view name) {
  return ends_in_any(name, {".tar", ".tar.gz", ".tgz", ".tar.zst"});
}

std::string plain_ending(std::string_view name) {
  constexpr size_t longest = 10;
  name = file_name(name);
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0 || name.size() - dot > longest) return "";
  std::string ending = lower_case(name.substr(dot));
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return ending.size() > 1 && std::all_of(ending.begin() + 1, ending.end(), plain) ? ending : "";
}

std::string unread_format(std::string_view name) {
  if (ends_in_any(name, {".heic", ".heif", ".hif"})) return "HEIC";
  return ends_in_any(name, {".avif"}) ? "AVIF" : "";
}

void PassedOver::add(std::string_view name) {
  ++endings_[plain_ending(name)];
  if (format_.empty()) format_ = unread_format(name);
}

std::string PassedOver::text() const {
  constexpr size_t most_named = 8;
  std::vector<std::pair<int64_t, std::string>> sorted;
  for (const auto& [ending, count] : endings_) sorted.emplace_back(-count, ending);
  std::sort(sorted.begin(), sorted.end());
  std::string text;
  int64_t rest = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    const auto& [count, ending] = sorted[i];
    if (ending.empty() || i >= most_named) {
      rest -= count;
    } else {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", -count, ending);
    }
  }
  if (rest > 0) text += fmt::format("{}{} other", text.empty() ? "" : ", ", rest);
  return text;
}

std::string PassedOver::advice() const {
  return format_.empty() ? "" : convert_advice(format_, "them");
}

FolderClasses folder_classes(const std::vector<std::string>& keys) {
  std::set<std::string> folders;
  for (const auto& key : keys) folders.insert(first_folder(key));
  folders.erase("");
  FolderClasses classes;
  classes.names.assign(folders.begin(), folders.end());
  const auto& names = classes.names;
  classes.labels.reserve(keys.size());
  for (const auto& key : keys) {
    const std::string folder = first_folder(key);
    const auto number = std::lower_bound(names.begin(), names.end(), folder) - names.begin();
    classes.labels.push_back(folder.empty() ? -1 : number);
  }
  return classes;
}

std::string plain_name(std::string_view name) {
  while (name.starts_with("./")) name.remove_prefix(2);
  return std::string(name);
}

std::string_view without_ending(std::string_view name) { return name.substr(0, name.rfind('.')); }

bool is_class_number_name(std::string_view name) { return plain_ending(name) == ".cls"; }

void check_class_number_size(int64_t size, const std::string& name) {
  if (size <= kLongestClassNumber) return;
  throw UserError("{}: expected a class number, found {} bytes", name, size);
}

int64_t parse_class_number(std::span<const std::byte> contents, const std::string& name) {
  const auto text = trimmed({reinterpret_cast<const char*>(contents.data()), contents.size()});
  int64_t label = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), label);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || label < 0) {
    throw UserError("{}: expected a class number, found {}", name, quote(text));
  }
  return label;
}

}  // namespace nsvq
