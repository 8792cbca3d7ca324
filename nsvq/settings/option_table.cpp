#include "nsvq/settings/option_table.h"

#include <fmt/format.h>

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

}  // namespace nsvq
