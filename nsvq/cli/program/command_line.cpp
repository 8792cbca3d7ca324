#include "nsvq/cli/program/command_line.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

#include "nsvq/cli/program/command.h"
#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/lookup.h"
#include "nsvq/core/text.h"
#include "nsvq/data/sources/patterns.h"

namespace nsvq {

namespace {

struct OldSpelling {
  std::string old, now;
};

struct OldOption {
  std::string command, old, now;  ///< `now` empty: the value alone, as a word of its own
};

// Rows stay for one version after the renaming.
const std::vector<OldSpelling> kCommands = {{"metrics", "images compare"},
                                            {"statistics", "images statistics"},
                                            {"index", "images index"},
                                            {"latents", "encode"}};
const std::vector<OldOption> kOptions = {{"eval", "--as", "--conventions"},
                                         {"compare", "--as", "--conventions"},
                                         {"images compare", "--as", "--conventions"},
                                         {"diffusion eval", "--as", "--conventions"},
                                         {"compare", "--samples", "--pictures"},
                                         {"compare", "--columns", "--transpose"},
                                         {"diffusion eval", "--samples", "--count"},
                                         {"diffusion eval", "--reference", "--data"},
                                         {"import", "--like", "--recipe"},
                                         {"import", "--set", ""}};

std::vector<std::string> split(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

bool begins_with(const std::vector<std::string>& words, const std::vector<std::string>& beginning) {
  return words.size() >= beginning.size() &&
         std::equal(beginning.begin(), beginning.end(), words.begin());
}

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

/// `nsvq COMMAND --help` for `nsvq help COMMAND`.
std::vector<std::string> with_help_as_flag(std::vector<std::string> words) {
  if (words.empty() || words[0] != "help") return words;
  words.erase(words.begin());
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
    throw UserError("unknown command {}{} (nsvq help lists all)", quote(words[0]),
                    did_you_mean(words[0], all));
  }
  const auto names = subcommand_names(*app.get_subcommand(words[0]));
  if (names.empty() || words.size() < 2 || words[1].starts_with('-')) return;
  if (std::ranges::find(names, words[1]) != names.end()) return;
  throw UserError("unknown command {} of nsvq {}{} (there are: {})", quote(words[1]), words[0],
                  did_you_mean(words[1], names), fmt::join(names, ", "));
}

/// The setting to write where an option of other commands is given.
std::string hint_of_setting(const std::string& option, const std::string& hint) {
  static const std::map<std::string, std::string> words = {{"--device", "device=cuda"},
                                                           {"--data", "data.train=SOURCE"},
                                                           {"--batch-size", "train.batch_size=N"},
                                                           {"--seed", "seed=N"}};
  const auto found = words.find(option);
  if (found == words.end() && !hint.empty()) return hint;
  return "; settings are words such as " +
         (found == words.end() ? "train.epochs=10" : found->second);
}

/// An unknown option or a word too many, which is the usual reason where CLI11 reports missing
/// arguments; empty if there is neither.
std::string describe_unknown(const CLI::App& app, const CLI::App& command) {
  const auto unread = app.remaining(/*recurse=*/true);
  for (const auto& word : unread) {
    if (!word.starts_with('-') || word == "--") continue;
    std::vector<std::string> known;
    for (const auto* option : command.get_options()) {
      for (const auto& name : option->get_lnames()) known.push_back("--" + name);
    }
    const auto name = word.substr(0, word.find('='));
    auto hint = did_you_mean(name, known);
    if (command.get_option_no_throw("SETTINGS")) hint = hint_of_setting(name, hint);
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

std::string describe(const CLI::ParseError& error, const CLI::App& app, const CLI::App& command) {
  if (const auto unknown = describe_unknown(app, command); !unknown.empty()) return unknown;
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

std::vector<std::string> with_present_spellings(std::vector<std::string> words) {
  if (begins_with(words, {"tokens", "merge"})) {
    throw UserError(
        "nsvq tokens merge is gone; nsvq tokenize --part fills one folder; merged ones still open");
  }
  for (const char* timed : {"ops", "diffusion"}) {
    if (!begins_with(words, {"bench", timed})) continue;
    throw UserError("nsvq bench {} is now nsvq_bench {}, a program of its own in the build folder",
                    timed, timed);
  }
  for (const auto& [old, now] : kCommands) {
    if (words.empty() || words[0] != old) continue;
    log("nsvq {} is now nsvq {}", old, now);
    const auto present = split(now);
    words.erase(words.begin());
    words.insert(words.begin(), present.begin(), present.end());
  }
  for (const auto& [command, old, now] : kOptions) {
    if (!begins_with(words, split(command))) continue;
    std::vector<std::string> kept;
    for (const auto& word : words) {
      const bool joined = word.starts_with(old + "=");
      if (word != old && !joined) {
        kept.push_back(word);
        continue;
      }
      log("nsvq {}: {} is now {}", command, old, now.empty() ? "written without it" : now);
      const auto value = joined ? word.substr(old.size()) : "";
      if (!now.empty()) kept.push_back(now + value);
      if (now.empty() && joined) kept.push_back(value.substr(1));
    }
    words = std::move(kept);
  }
  return words;
}

std::vector<std::string> read_words(std::vector<std::string> words, const CLI::App& app) {
  words = with_present_spellings(with_home_paths(with_help_as_flag(std::move(words))));
  check_command_names(app, words);
  refuse_empty_words(words);
  return words;
}

std::string describe_error(const CLI::ParseError& error, const CLI::App& app) {
  const auto& named = named_command(app);
  std::string command;
  for (const auto* one = &named; one != &app; one = one->get_parent()) {
    command = " " + one->get_name() + command;
  }
  return fmt::format("{} (nsvq help{})", describe(error, app, named), command);
}

}  // namespace nsvq
