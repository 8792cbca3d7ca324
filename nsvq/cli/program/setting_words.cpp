#include "nsvq/cli/program/setting_words.h"

#include <algorithm>

#include "nsvq/core/text.h"
#include "nsvq/diffusion/config.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/settings/keys_meant.h"

namespace nsvq {

namespace {

/// The value that follows an option, `--lr 1e-3` or `--lr=1e-3`; empty if none does.
std::string value_after(const std::string& option, const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with(option + "=")) return words[i].substr(option.size() + 1);
    if (words[i] != option || i + 1 == words.size()) continue;
    const auto& next = words[i + 1];
    const bool of_another = next.starts_with("--") || next.find('=') != std::string::npos;
    return of_another ? "" : next;
  }
  return "";
}

std::string setting_in(const OptionTable& table, const std::string& word,
                       const std::string& value) {
  const auto row_of = [&](const std::string& key) {
    return std::ranges::find(table.rows, key, &Option::key);
  };
  auto row = row_of(word);
  if (row == table.rows.end()) {
    const auto keys = keys_meant(word, table);
    if (keys.empty()) return "";
    row = row_of(keys.front());
  }
  const auto meant = row->range.other_words.find(lower_case(value));
  if (meant != row->range.other_words.end()) return row->key + "=" + meant->second;
  const auto shown = row->type() == "boolean" ? "true" : "VALUE";
  return shown_shell_word(row->key + "=" + (value.empty() ? shown : value));
}

}  // namespace

std::string setting_for_option(const std::string& option, const std::vector<std::string>& words) {
  auto word = option.substr(std::min(option.find_first_not_of('-'), option.size()));
  std::ranges::replace(word, '-', '_');
  const auto value = value_after(option, words);
  if (!words.empty() && words[0] == "diffusion") {
    DiffusionConfig config;
    return setting_in(option_table(config), word, value);
  }
  TokenizerConfig config;
  return setting_in(option_table(config), word, value);
}

}  // namespace nsvq
