#include "nsvq/cli/program/command_line.h"

#include <fmt/format.h>

#include <algorithm>

#include "nsvq/core/text.h"
#include "nsvq/diffusion/config.h"
#include "nsvq/generation/config.h"
#include "nsvq/recipe/tokenizer_config.h"

namespace nsvq {

namespace {

/// A word of other programs, what to type here, and the command whose help tells more.
struct OtherWord {
  std::string word, here, help;
};

const std::vector<OtherWord> kOtherWords = {
    {"sweep", "reproduce FILE.yaml", "reproduce"},
    {"ablate", "reproduce FILE.yaml", "reproduce"},
    {"run", "train CONFIG", "train"},
    {"fit", "train CONFIG", "train"},
    {"resume", "train RUN --resume", "train"},
    {"continue", "train RUN --resume", "train"},
    {"finetune", "train CONFIG train.init_from=RUN", "train"},
    {"sample", "generate sample", "generate sample"},
    {"inpaint", "generate inpaint", "generate inpaint"},
    {"evaluate", "eval", "eval"},
    {"validate", "eval", "eval"},
    {"test", "eval", "eval"},
    {"fid", "images compare", "images compare"},
    {"infer", "reconstruct", "reconstruct"},
    {"predict", "reconstruct", "reconstruct"},
    {"decode", "detokenize", "detokenize"},
    {"quantize", "tokenize", "tokenize"},
    {"verify", "tokens verify", "tokens verify"},
    {"download", "weights get NAME", "weights get"},
    {"convert", "import", "import"},
    {"list", "runs", "runs"},
    {"ls", "runs", "runs"},
    {"status", "runs", "runs"},
    {"show", "info", "info"},
    {"plot", "report", "report"},
    {"tensorboard", "watch", "watch"},
    {"serve", "watch", "watch"},
    {"benchmark", "bench", "bench"}};

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
    const auto keys = table.keys_meant(word);
    if (keys.empty()) return "";
    row = row_of(keys.front());
  }
  const auto meant = row->range.other_words.find(lower_case(value));
  if (meant != row->range.other_words.end()) return row->key + "=" + meant->second;
  const auto shown = row->type() == "boolean" ? "true" : "VALUE";
  return shown_shell_word(row->key + "=" + (value.empty() ? shown : value));
}

}  // namespace

std::string command_meant(const std::string& word) {
  const auto found = std::ranges::find(kOtherWords, word, &OtherWord::word);
  if (found == kOtherWords.end()) return "";
  return fmt::format("; nsvq {} does that (nsvq help {})", found->here, found->help);
}

std::string setting_meant(const std::string& option, const std::vector<std::string>& words) {
  auto word = option.substr(std::min(option.find_first_not_of('-'), option.size()));
  std::ranges::replace(word, '-', '_');
  const auto value = value_after(option, words);
  if (!words.empty() && words[0] == "diffusion") {
    DiffusionConfig config;
    return setting_in(option_table(config), word, value);
  }
  if (!words.empty() && words[0] == "generate") {
    GenerationConfig config;
    return setting_in(option_table(config), word, value);
  }
  TokenizerConfig config;
  return setting_in(option_table(config), word, value);
}

}  // namespace nsvq
