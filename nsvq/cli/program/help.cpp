#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "nsvq/cli/output/stdout.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/cli/program/command_line.h"
#include "nsvq/core/text.h"

namespace nsvq {

namespace {

constexpr size_t kNarrowest = 40, kWidest = 100;  ///< columns of a page
constexpr size_t kMostColumn = 26;                ///< where texts begin at most
constexpr size_t kMostShown = 18;                 ///< characters of choices beside an option's name

constexpr auto kExitCodes =
    "Exit codes: 0 done; 2 an error in arguments, settings or input files; 3 a failure at run "
    "time; 130 or 143 stopped by SIGINT (Ctrl-C), SIGTERM or SIGHUP once what was done is saved "
    "(train, diffusion train, generate train, reproduce, detokenize). Other commands end by the "
    "signal; those that fill a folder complete it when they are run again.";

bool takes_several(const CLI::Option& option) {
  return option.get_expected_max() == CLI::detail::expected_max_vector_size;
}

/// "auto|cpu|cuda" of an option that takes one of these, else empty.
std::string choices_of(const CLI::Option& option) {
  const auto type = option.get_type_name();  // "TEXT:{auto,cpu,cuda}"
  const auto list = type.find(":{");
  if (list == std::string::npos) return "";
  auto choices = type.substr(list + 2, type.find('}', list) - list - 2);
  std::replace(choices.begin(), choices.end(), ',', '|');
  return choices;
}

/// The value of an option: N, a|b for a few choices, or its kind.
std::string value_of(const CLI::Option& option) {
  if (option.get_type_size() == 0) return "";
  const auto type = option.get_type_name();  // "INT:INT in [1 - 8]"
  auto name = type.substr(0, type.find(':'));
  if (name == "INT" || name == "UINT" || name == "FLOAT") name = "N";
  if (const auto choices = choices_of(option); !choices.empty()) {
    name = choices.size() <= kMostShown ? choices : "NAME";
  }
  return " " + name + (takes_several(option) ? "..." : "");
}

std::string name_of(const CLI::Option& option) {
  if (option.get_positional()) return option.get_name(true) + (takes_several(option) ? "..." : "");
  return option.get_name(false, true) + value_of(option);
}

/// A text up to the first semicolon outside of parentheses: behind it are details.
std::string first_clause(const std::string& text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')') --depth;
    if (text[i] == ';' && depth == 0) return text.substr(0, i);
  }
  return text;
}

std::string text_of(const CLI::Option& option, bool whole) {
  auto text = option.get_description();
  if (!whole) text = first_clause(text);
  if (auto choices = choices_of(option);
      choices.size() > kMostShown && text.find(choices.substr(0, choices.find('|'))) == text.npos) {
    for (size_t at = 0; (at = choices.find('|', at)) != choices.npos;) choices.replace(at, 1, ", ");
    text += ": " + choices;
  }
  const auto usual = option.get_default_str();
  // An option whose value may be missing has there what that means.
  const bool shown =
      usual.empty() || option.get_expected_min() == 0 || text.find("(default") != std::string::npos;
  return shown ? text : fmt::format("{}{}(default: {})", text, text.empty() ? "" : " ", usual);
}

/// Positional arguments, options that must be given, the others.
std::vector<const CLI::Option*> options_of(const CLI::App& app) {
  auto options = app.get_options([](const CLI::Option* one) {
    return !one->get_group().empty() && !one->check_name("--help");
  });
  std::ranges::stable_sort(options, {}, [](const CLI::Option* one) {
    return one->get_positional() ? 0 : one->get_required() ? 1 : 2;
  });
  return options;
}

class HelpFormatter : public CLI::FormatterBase {
 public:
  explicit HelpFormatter(bool all)
      : all_(all), width_(std::clamp(static_cast<size_t>(stdout_width()), kNarrowest, kWidest)) {}

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode) const override;

 private:
  struct Row {
    std::string name, text;
  };

  std::string wrap(std::string line, const std::string& text, size_t indent) const;
  size_t column_of(const std::vector<Row>& rows) const;
  std::string list(const std::vector<Row>& rows, size_t column) const;
  std::string usage(const CLI::App& app, const std::string& name) const;
  std::string options(const CLI::App& app) const;
  std::string commands(const CLI::App& app) const;
  std::string ending(const CLI::App& app, const std::string& name) const;

  bool all_;
  size_t width_;
};

/// The words of `text` behind `line`, in lines of the page's width that begin at column `indent`.
std::string HelpFormatter::wrap(std::string line, const std::string& text, size_t indent) const {
  std::istringstream words(text);
  std::string lines;
  for (std::string word; words >> word;) {
    if (line.size() + 1 + word.size() > width_ && line.size() > indent) {
      lines += line + "\n";
      line = std::string(indent, ' ');
    }
    line += (line.empty() || line.back() == ' ' ? "" : " ") + word;
  }
  return lines + line + "\n";
}

/// Where the texts of a list begin.
size_t HelpFormatter::column_of(const std::vector<Row>& rows) const {
  size_t widest = 0;
  for (const auto& row : rows) widest = std::max(widest, row.name.size());
  return std::min({widest + 4, kMostColumn, width_ / 3});
}

std::string HelpFormatter::list(const std::vector<Row>& rows, size_t column) const {
  std::string lines;
  for (const auto& [name, text] : rows) {
    auto line = "  " + name;
    if (line.size() + 2 > column) {
      lines += line + "\n";
      line.clear();
    }
    line.resize(column, ' ');
    lines += wrap(line, text, column);
  }
  return lines;
}

std::string HelpFormatter::usage(const CLI::App& app, const std::string& name) const {
  std::string words, others;
  for (const auto* option : options_of(app)) {
    const auto shown = name_of(*option);
    if (option->get_required()) {
      words += " " + shown;
    } else if (option->get_positional()) {
      words += " [" + shown + "]";
    } else {
      others = " [options]";
    }
  }
  if (app.get_require_subcommand_min() > 0) others = " COMMAND ...";
  const auto line = "usage: " + name;
  return wrap(line, words + others, std::min(line.size() + 1, kMostColumn));
}

std::string HelpFormatter::options(const CLI::App& app) const {
  std::vector<Row> usual, rare;
  for (const auto* option : options_of(app)) {
    auto& rows = option->get_group() == kRare ? rare : usual;
    rows.push_back({name_of(*option), text_of(*option, all_)});
  }
  auto shown = usual;
  if (all_) shown.insert(shown.end(), rare.begin(), rare.end());
  const auto column = column_of(shown);
  std::string text = usual.empty() ? "" : "\n" + list(usual, column);
  if (all_ && !rare.empty()) text += fmt::format("\n{}:\n", kRare) + list(rare, column);
  return text;
}

/// The commands of a command, those of the program under their headings.
std::string HelpFormatter::commands(const CLI::App& app) const {
  std::vector<std::pair<std::string, std::vector<Row>>> groups;
  std::vector<Row> all;
  for (const auto* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    const auto heading = app.get_parent() ? "" : sub->get_group();
    if (groups.empty() || groups.back().first != heading) groups.push_back({heading, {}});
    all.push_back({sub->get_name(), sub->get_description()});
    groups.back().second.push_back(all.back());
  }
  std::string text;
  for (const auto& [heading, rows] : groups) {
    text += (heading.empty() ? "\n" : "\n" + heading + ":\n") + list(rows, column_of(all));
  }
  return text;
}

/// The footer and the exit codes, or how to see them.
std::string HelpFormatter::ending(const CLI::App& app, const std::string& name) const {
  const auto footer = app.get_footer();
  if (all_)
    return (footer.empty() ? "" : "\n" + wrap("", footer, 0)) + "\n" + wrap("", kExitCodes, 0);
  const auto command = "nsvq help" + name.substr(std::min(name.find(' '), name.size()));
  if (app.get_require_subcommand_min() > 0) {
    return "\n" +
           wrap("",
                command + " COMMAND explains one of them, " + command + " --all the exit codes.",
                0);
  }
  const auto is_rare = [](const CLI::Option* option) { return option->get_group() == kRare; };
  const auto more = std::ranges::count_if(options_of(app), is_rare);
  const auto also = more == 0 ? "more on these" : count_of(more, "more option");
  return "\n" + wrap("", fmt::format("{} --all: {}, exit codes.", command, also), 0);
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name,
                                     CLI::AppFormatMode) const {
  return wrap("", app->get_description(), 0) + usage(*app, name) + options(*app) + commands(*app) +
         ending(*app, name);
}

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_formatter(bool all) {
  return std::make_shared<HelpFormatter>(all);
}

}  // namespace nsvq
