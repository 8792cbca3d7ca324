#include "nsvq/data/sources/image_names.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <set>
#include <utility>

#include "nsvq/io/images/unread_image.h"

#include "nsvq/core/text.h"

namespace nsvq {

namespace {

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
    const auto place = std::lower_bound(names.begin(), names.end(), folder) - names.begin();
    classes.labels.push_back(folder.empty() ? -1 : place);
  }
  return classes;
}

}  // namespace nsvq
