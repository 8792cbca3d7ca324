#include "nsvq/data/image_names.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace nsvq {

namespace {

bool ends_with(std::string_view name, std::string_view ending) {
  if (name.size() < ending.size()) return false;
  const auto same = [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  };
  return std::equal(name.end() - std::ssize(ending), name.end(), ending.begin(), same);
}

std::string first_folder(const std::string& key) {
  const size_t slash = key.find('/');
  return slash == std::string::npos ? "" : key.substr(0, slash);
}

}  // namespace

bool is_image_name(std::string_view name) {
  const size_t slash = name.rfind('/');
  if (slash != std::string_view::npos) name.remove_prefix(slash + 1);
  if (name.empty() || name[0] == '.') return false;
  return ends_with(name, ".jpg") || ends_with(name, ".jpeg") || ends_with(name, ".png");
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
