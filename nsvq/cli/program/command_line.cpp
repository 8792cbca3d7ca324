#include "nsvq/cli/program/command_line.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "nsvq/cli/program/command.h"
#include "nsvq/core/error.h"
#include "nsvq/core/lookup.h"
#include "nsvq/core/text.h"
#include "nsvq/data/sources/patterns.h"

namespace nsvq {

namespace {

/// Throws UserError for an empty word: usually a variable of the shell that is not set.
void refuse_empty_words(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    const auto& word = words[i];
    if (word.starts_with("--") && word.ends_with('=')) {
      throw UserError("{} is empty; give it a value or leave it out",
                      word.substr(0, word.size() - 1));
    }
    if (!word.empty()) continue;
    const bool of_option = i > 0 && words[i - 1].starts_with("--");
    throw UserError("{} is empty; give it a value or leave it out",
                    of_option ? words[i - 1] : fmt::format("word {} of the command", i + 1));
  }
}

bool asks_for_help(const std::vector<std::string>& words) {
  const auto is_flag = [](const auto& word) { return word == "--help" || word == "-h"; };
  return (!words.empty() && words[0] == "help") || std::ranges::any_of(words, is_flag);
}

/// `nsvq COMMAND --help` for `nsvq help COMMAND`, without the --all that asks_for_all_help has
/// seen.
std::vector<std::string> with_help_as_flag(std::vector<std::string> words) {
  if (!asks_for_help(words)) return words;
  std::erase(words, "--all");
  if (words[0] != "help") return words;
  words.erase(words.begin());
  if (words == std::vector<std::string>{"help"}) words.clear();
  words.emplace_back("--help");
  return words;
}

/// Words with the home folder for ~ in `~/x` and `--run=~/x`, which a shell leaves alone within
/// quotes and after `=`. Training does it for settings (data.train=~/x).
std::vector<std::string> with_home_paths(std::vector<std::string> words) {
  for (auto& word : words) {
    const auto value = word.starts_with("--") ? word.find('=') + 1 : 0;
    if (word.starts_with("--") && value == 0) continue;
    word = word.substr(0, value) + home_path(word.substr(value));
  }
  return words;
}

/// The innermost command that the arguments name.
const CLI::App& named_command(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : named_command(*chosen.front());
}

/// The commands of `nsvq`, or those of `nsvq tokens`.
std::vector<std::string> subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* one : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(one->get_name());
  }
  return names;
}

/// CLI11 would report a mistyped command as an unexpected argument, and with --help not at all.
void check_command_names(const CLI::App& app, const std::vector<std::string>& words) {
  if (words.empty() || words[0].starts_with('-')) return;
  const auto all = names_of(commands());
  if (std::ranges::find(all, words[0]) == all.end()) {
    if (const auto meant = command_meant(words[0]); !meant.empty()) {
      throw UserError("unknown command {}{}", quote(words[0]), meant);
    }
    throw UserError("unknown command {}{} (nsvq help lists all)", quote(words[0]),
                    did_you_mean(words[0], all));
  }
  const auto names = subcommand_names(*app.get_subcommand(words[0]));
  if (names.empty() || words.size() < 2 || words[1].starts_with('-')) return;
  if (std::ranges::find(names, words[1]) != names.end()) return;
  throw UserError("unknown command {} of nsvq {}{} (there are: {})", quote(words[1]), words[0],
                  did_you_mean(words[1], names), fmt::join(names, ", "));
}

/// An unknown option or a word too many, which is the usual reason where CLI11 reports missing
/// arguments; empty if there is neither.
std::string describe_unknown(const CLI::App& app, const CLI::App& command,
                             const std::vector<std::string>& words) {
  const auto unread = app.remaining(/*recurse=*/true);
  for (const auto& word : unread) {
    if (!word.starts_with('-') || word == "--") continue;
    std::vector<std::string> known;
    for (const auto* option : command.get_options()) {
      for (const auto& name : option->get_lnames()) known.push_back("--" + name);
    }
    const auto name = word.substr(0, word.find('='));
    auto hint = did_you_mean(name, known);
    if (hint.empty() && command.get_option_no_throw("SETTINGS")) {
      const auto setting = setting_meant(name, words);
      hint = setting.empty() ? "; settings are words such as train.epochs=10"
                             : "; a setting is a word without dashes: " + setting;
    }
    return fmt::format("unknown option {}{}", name, hint);
  }
  for (const auto& word : unread) {
    if (word == "--") continue;
    const auto* data = command.get_option_no_throw("--data");
    return fmt::format("{} is a word too many{}", quote(word),
                       data && data->count() == 0 ? "; images are named by --data" : "");
  }
  return "";
}

/// CLI11's "NAME: Value X not in range A to B" and its like in the words of this program.
std::string in_plain_words(const std::string& text) {
  const size_t colon = std::min(text.find(": "), text.size());
  const auto name = text.substr(0, colon);
  const auto rest = colon == text.size() ? "" : text.substr(colon + 2);
  const std::string value = "Value ", range = " not in range ", list = " not in {", is = " = ";
  if (const auto at = rest.rfind(range); at != std::string::npos && rest.starts_with(value)) {
    return fmt::format("{}: {} is not a whole number from {}", name,
                       quote(rest.substr(value.size(), at - value.size())),
                       rest.substr(at + range.size()));
  }
  if (const auto at = rest.rfind(list); at != std::string::npos && rest.ends_with('}')) {
    const auto allowed = rest.substr(at + list.size(), rest.size() - at - list.size() - 1);
    return fmt::format("{}: {} is none of {}", name, quote(rest.substr(0, at)),
                       fmt::join(split_list(allowed), ", "));
  }
  if (const auto at = rest.find(is); at != std::string::npos && name == "Could not convert") {
    return fmt::format("{}: {} is no value for it", rest.substr(0, at),
                       quote(rest.substr(at + is.size())));
  }
  if (rest.starts_with("1 required ") && rest.ends_with(" missing")) {
    return name + ": its value is missing";
  }
  if (rest.starts_with("At Most 1 required ")) return name + " is given more than once";
  return text;
}

std::string describe(const CLI::ParseError& error, const CLI::App& app, const CLI::App& command,
                     const std::vector<std::string>& words) {
  if (const auto unknown = describe_unknown(app, command, words); !unknown.empty()) return unknown;
  if (&command == &app) return "a command is missing";
  if (const auto names = subcommand_names(command); !names.empty()) {
    return fmt::format("a command is missing (there are: {})", fmt::join(names, ", "));
  }
  const auto text = in_plain_words(error.what());
  const auto* data = command.get_option_no_throw("--data");
  const bool word = !text.starts_with('-') && text.ends_with("is required");
  if (word && data && data->count() > 0) {
    return text + " before --data, which takes all words up to the next option";
  }
  return text;
}

}  // namespace

bool asks_for_all_help(const std::vector<std::string>& words) {
  return asks_for_help(words) && std::ranges::find(words, "--all") != words.end();
}

std::vector<std::string> read_words(std::vector<std::string> words, const CLI::App& app) {
  words = with_present_spellings(with_home_paths(with_help_as_flag(std::move(words))));
  check_command_names(app, words);
  refuse_empty_words(words);
  return words;
}

std::string describe_error(const CLI::ParseError& error, const CLI::App& app,
                           const std::vector<std::string>& words) {
  const auto& named = named_command(app);
  std::string command;
  for (const auto* one = &named; one != &app; one = one->get_parent()) {
    command = " " + one->get_name() + command;
  }
  return fmt::format("{} (nsvq help{})", describe(error, app, named, words), command);
}

}  // namespace nsvq
