#include "nsvq/settings/option_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

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

}  // namespace nsvq
