#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "nsvq/cli/program/command_line.h"

namespace nsvq {

namespace {

constexpr size_t kWidth = 100, kColumn = 27;

/// The words of `text` behind `line`, in lines of at most kWidth that begin at column `indent`.
std::string wrap(std::string line, const std::string& text, size_t indent) {
  std::istringstream words(text);
  std::string lines;
  for (std::string word; words >> word;) {
    if (line.size() + 1 + word.size() > kWidth && line.size() > indent) {
      lines += line + "\n";
      line = std::string(indent, ' ');
    }
    line += (line.empty() || line.back() == ' ' ? "" : " ") + word;
  }
  return lines + line + "\n";
}

/// A line of a list: a name and a text.
std::string entry(const std::string& name, const std::string& text) {
  auto line = "  " + name;
  if (line.size() + 2 <= kColumn) {
    line.resize(kColumn, ' ');
    return wrap(line, text, kColumn);
  }
  return line + "\n" + wrap(std::string(kColumn, ' '), text, kColumn);
}

constexpr size_t kMostShown = 18;  ///< characters of choices beside an option's name

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
  const bool several = option.get_expected_max() == CLI::detail::expected_max_vector_size;
  return " " + name + (several ? "..." : "");
}

std::string positional_name(const CLI::Option& option) {
  const bool several = option.get_expected_max() == CLI::detail::expected_max_vector_size;
  return option.get_name(true) + (several ? "..." : "");
}

std::string text_of(const CLI::Option& option) {
  auto text = option.get_description();
  const auto usual = option.get_default_str();
  if (auto choices = choices_of(option);
      choices.size() > kMostShown && text.find(choices.substr(0, choices.find('|'))) == text.npos) {
    for (size_t at = 0; (at = choices.find('|', at)) != choices.npos;) choices.replace(at, 1, ", ");
    text += ": " + choices;
  }
  // An option whose value may be missing has there what that means.
  const bool shown =
      usual.empty() || option.get_expected_min() == 0 || text.find("(default") != std::string::npos;
  return shown ? text : fmt::format("{}{}(default: {})", text, text.empty() ? "" : " ", usual);
}

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_group(std::string title, bool is_positional,
                         std::vector<const CLI::Option*> options) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* sub) const override;
};

std::string HelpFormatter::make_usage(const CLI::App* app, std::string name) const {
  std::string words, sometimes;
  for (const auto* option : app->get_options([](const CLI::Option* one) {
         return one->get_positional() && !one->get_group().empty();
       })) {
    const auto shown = positional_name(*option);
    words += option->get_required() ? " " + shown : " [" + shown + "]";
  }
  for (const auto* option :
       app->get_options([](const CLI::Option* one) { return one->nonpositional(); })) {
    if (option->get_required()) {
      words += " " + option->get_name(false, true) + value_of(*option);
    } else {
      sometimes = " [options]";
    }
  }
  if (app->get_require_subcommand_min() > 0) sometimes = " COMMAND ...";
  const auto usage = "usage: " + name;
  return wrap(usage, words + sometimes, std::min<size_t>(usage.size() + 1, kColumn));
}

std::string HelpFormatter::make_group(std::string title, bool is_positional,
                                      std::vector<const CLI::Option*> options) const {
  std::string lines;
  for (const auto* option : options) lines += make_option(option, is_positional);
  return lines.empty() ? "" : "\n" + title + ":\n" + lines;
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  if (option->check_name("--help")) return "";  // known to whoever reads this
  if (is_positional) return entry(positional_name(*option), text_of(*option));
  return entry(option->get_name(false, true) + value_of(*option), text_of(*option));
}

std::string HelpFormatter::make_subcommand(const CLI::App* sub) const {
  return entry(sub->get_name(), sub->get_description());
}

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_formatter() { return std::make_shared<HelpFormatter>(); }

}  // namespace nsvq
