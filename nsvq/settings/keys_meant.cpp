#include "nsvq/settings/keys_meant.h"

#include <algorithm>
#include <cstddef>
#include <functional>

#include "nsvq/core/text.h"

namespace nsvq {

namespace {

constexpr size_t kMostKeys = 3;

struct Parts {
  std::string section, name;
};

Parts parts_of(const std::string& key) {
  const size_t dot = key.rfind('.');
  if (dot == std::string::npos) return {"", key};
  return {key.substr(0, dot), key.substr(dot + 1)};
}

/// Whether `word` may be a slip for `right`. Sections and names are compared apart: train.device is
/// no slip for train.metrics, though most of it is the same.
bool is_slip(const std::string& word, const std::string& right) {
  return edit_distance(word, right) <= misspelling_limit(word.size());
}

/// The key that a word with a section misspells, the nearest one; empty if there is none.
std::string misspelt_key(const std::string& word, const OptionTable& table) {
  const auto given = parts_of(word);
  if (given.section.empty()) return "";
  std::vector<std::string> close;
  for (const auto& row : table.rows) {
    if (is_slip(given.section, row.section()) && is_slip(given.name, row.name())) {
      close.push_back(row.key);
    }
  }
  return nearest(word, close);
}

/// The key for a word of other programs; empty if there is none, or this table does not have it.
std::string key_of_other_word(const std::string& word, const OptionTable& table) {
  const auto found = table.other_words.find(lower_case(word));
  if (found == table.other_words.end()) return "";
  const auto has_key = [&](const Option& row) { return row.key == found->second; };
  return std::ranges::any_of(table.rows, has_key) ? found->second : "";
}

/// Keys of any section with this name, or else with one that begins with it or differs by a letter;
/// none if there are too many.
std::vector<std::string> same_name_elsewhere(const std::string& name, const OptionTable& table) {
  if (name.empty()) return {};
  const size_t slip = std::min<size_t>(misspelling_limit(name.size()), 1);
  const std::function<bool(const std::string&)> kinds_of_match[] = {
      [&](const std::string& other) { return other == name; },
      [&](const std::string& other) { return name.size() > 2 && other.starts_with(name); },
      [&](const std::string& other) { return edit_distance(name, other) <= slip; }};
  for (const auto& matches : kinds_of_match) {
    std::vector<std::string> keys;
    for (const auto& row : table.rows) {
      if (matches(row.name())) keys.push_back(row.key);
    }
    if (keys.size() > kMostKeys) return {};
    if (!keys.empty()) return keys;
  }
  return {};
}

}  // namespace

std::vector<std::string> keys_meant(const std::string& given, const OptionTable& table) {
  const auto word = given.substr(0, 200);  // no key is longer, and distances are of quadratic cost
  const auto name = parts_of(word).name;
  if (const auto key = key_of_other_word(word, table); !key.empty()) return {key};
  if (const auto key = misspelt_key(word, table); !key.empty()) return {key};
  if (const auto key = key_of_other_word(name, table); !key.empty()) return {key};
  if (auto keys = same_name_elsewhere(name, table); !keys.empty()) return keys;
  std::vector<std::string> all;
  for (const auto& row : table.rows) all.push_back(row.key);
  const auto key = word_meant(word, all);
  const bool sectioned = word.find('.') != std::string::npos;  // compared part by part above
  const bool meant = !key.empty() && (!sectioned || key.starts_with(word));
  return meant ? std::vector{key} : std::vector<std::string>{};
}

}  // namespace nsvq
