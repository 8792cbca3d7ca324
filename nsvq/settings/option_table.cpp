#include "nsvq/settings/option_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "nsvq/core/text.h"
#include "nsvq/settings/settings_reader.h"

namespace nsvq {

void OptionTable::load(const std::string& path, const std::vector<std::string>& overrides) const {
  SettingsReader reader(*this);
  if (!path.empty()) reader.read_file(path);
  reader.read_overrides(overrides);
  // Settings that do not fit together may come from either source.
  const char* both = overrides.empty() ? ": " : " with the command line: ";
  reader.finish(path.empty() ? "" : path + both);
}

void OptionTable::parse(const std::string& text, const std::string& source) const {
  SettingsReader reader(*this);
  reader.read_text(text, source);
  reader.finish(source + ": ");
}

std::string OptionTable::to_yaml() const {
  std::string text, section;
  for (const auto& option : rows) {
    if (option.section() != section) {
      section = option.section();
      text += fmt::format("\n{}:\n", section);
    }
    text += fmt::format("{}{}: {}\n", section.empty() ? "" : "  ", option.name(), option.value());
  }
  return text;
}

std::vector<std::string> OptionTable::differences(const OptionTable& other) const {
  std::vector<std::string> texts;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto a = rows[i].value(), b = other.rows.at(i).value();
    if (rows[i].effect == Effect::not_on_result || a == b) continue;
    texts.push_back(fmt::format("{} ({} here, {} there)", rows[i].key, a, b));
  }
  return texts;
}

namespace {

constexpr size_t kColumns = 5;
constexpr std::array<size_t, kColumns> kWidths = {33, 8, 12, 18, 31};

/// Lines of at most `width` bytes, broken at spaces and behind bars; a longer word gets a line of
/// its own.
std::vector<std::string> wrap(const std::string& text, size_t width) {
  std::vector<std::string> lines(1);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of(" |", at), text.size() - 1) + 1;
    const std::string piece = text.substr(at, end - at);
    const size_t shown = piece.size() - (piece.back() == ' ');
    if (!lines.back().empty() && lines.back().size() + shown > width) lines.emplace_back();
    lines.back() += piece;
    at = end;
  }
  for (auto& line : lines) {
    if (line.ends_with(' ')) line.pop_back();  // it may be one too many for the column
  }
  return lines;
}

/// One row of the table, on as many lines as its longest cell takes.
std::string table_row(const std::array<std::string, kColumns>& cells) {
  std::array<std::vector<std::string>, kColumns> wrapped;
  size_t height = 0;
  for (size_t i = 0; i < kColumns; ++i) {
    wrapped[i] = wrap(cells[i], kWidths[i]);
    height = std::max(height, wrapped[i].size());
  }
  std::string text;
  for (size_t line = 0; line < height; ++line) {
    std::string joined;
    for (size_t i = 0; i < kColumns; ++i) {
      const std::string cell = line < wrapped[i].size() ? wrapped[i][line] : "";
      joined += fmt::format("{:<{}}  ", cell, kWidths[i]);
    }
    text += joined.substr(0, joined.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace

std::string OptionTable::reference() const {
  std::string text = table_row({"key", "type", "default", "range", "meaning"}), section = "-";
  for (const auto& option : rows) {
    if (option.section() != section) text += "\n";
    section = option.section();
    // A path does not fit its column and must not be broken: it goes below the meaning.
    const std::string value = option.value();
    const bool fits = value.size() <= kWidths[2] || value.find(' ') != std::string::npos;
    text += table_row(
        {option.key, option.type(), fits ? value : "(below)", option.range.text, option.help});
    if (!fits) text += fmt::format("{:>{}}{}\n", "", kWidths[0] + 2, value);
  }
  return text;
}

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

std::vector<std::string> OptionTable::keys_meant(const std::string& given) const {
  const auto word = given.substr(0, 200);  // no key is longer, and distances are of quadratic cost
  const auto name = parts_of(word).name;
  if (const auto key = key_of_other_word(word, *this); !key.empty()) return {key};
  if (const auto key = misspelt_key(word, *this); !key.empty()) return {key};
  if (const auto key = key_of_other_word(name, *this); !key.empty()) return {key};
  if (auto keys = same_name_elsewhere(name, *this); !keys.empty()) return keys;
  std::vector<std::string> all;
  for (const auto& row : rows) all.push_back(row.key);
  const auto key = word_meant(word, all);
  const bool sectioned = word.find('.') != std::string::npos;  // compared part by part above
  const bool meant = !key.empty() && (!sectioned || key.starts_with(word));
  return meant ? std::vector{key} : std::vector<std::string>{};
}

}  // namespace nsvq
