// `nsvq completion`: scripts for bash and zsh, made from the program's own arguments.

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "nsvq/cli/program/command.h"

namespace nsvq {

namespace {

/// What may follow a command: its subcommands and its long options.
struct Completion {
  std::string command;  ///< "bench step"
  std::vector<std::string> words;
};

void collect(const CLI::App& app, const std::string& path, std::vector<Completion>& all) {
  Completion one{path, {}};
  const auto subcommands = app.get_subcommands([](const CLI::App*) { return true; });
  for (const auto* sub : subcommands) one.words.push_back(sub->get_name());
  for (const auto* option : app.get_options()) {
    for (const auto& name : option->get_lnames()) one.words.push_back("--" + name);
  }
  all.push_back(one);
  for (const auto* sub : subcommands) {
    collect(*sub, path.empty() ? sub->get_name() : path + " " + sub->get_name(), all);
  }
}

/// A shell function that sets `candidates` to what may follow the command in $1 and $2.
std::string cases_of(const CLI::App& root) {
  std::vector<Completion> all;
  collect(root, "", all);
  std::string text = "_nsvq_words() {\n  case \"$1 $2\" in\n";
  // Subcommands before their command, whose pattern fits them too.
  for (auto one = all.rbegin(); one != all.rend(); ++one) {
    const bool nested = one->command.find(' ') != std::string::npos;
    const auto pattern = one->command.empty() ? "*"
                         : nested             ? "\"" + one->command + "\""
                                              : "\"" + one->command + " \"*";
    text += fmt::format("    {}) candidates=\"{}\" ;;\n", pattern, fmt::join(one->words, " "));
  }
  return text + "  esac\n}\n";
}

constexpr auto kBash = R"(_nsvq() {
  local candidates current=${COMP_WORDS[COMP_CWORD]} first= second=
  [ "$COMP_CWORD" -gt 1 ] && first=${COMP_WORDS[1]}
  [ "$COMP_CWORD" -gt 2 ] && second=${COMP_WORDS[2]}
  _nsvq_words "$first" "$second"
  COMPREPLY=($(compgen -W "$candidates" -- "$current"))
}
complete -o default -F _nsvq nsvq
)";

constexpr auto kZsh = R"(_nsvq() {
  local candidates first= second=
  (( CURRENT > 2 )) && first=${words[2]}
  (( CURRENT > 3 )) && second=${words[3]}
  _nsvq_words "$first" "$second"
  compadd -- ${=candidates}
  _files
}
if [ "${funcstack[1]}" = _nsvq ]; then _nsvq "$@"; else compdef _nsvq nsvq; fi
)";

void print_completion(const CLI::App& root, const std::string& shell) {
  if (shell == "zsh") fmt::print("#compdef nsvq\n");
  fmt::print("# Made by `nsvq completion {}`.\n{}\n{}", shell, cases_of(root),
             shell == "bash" ? kBash : kZsh);
}

}  // namespace

void declare_completion(CLI::App& app) {
  const auto shell = std::make_shared<std::string>();
  app.add_option("SHELL", *shell, "bash or zsh")->required()->check(CLI::IsMember({"bash", "zsh"}));
  app.callback([&app, shell] { print_completion(*app.get_parent(), *shell); });
}

}  // namespace nsvq
