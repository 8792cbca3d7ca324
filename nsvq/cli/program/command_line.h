#pragma once

#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
class FormatterBase;
class ParseError;
}  // namespace CLI

namespace nsvq {

/// The words of a command line as CLI11 reads them: `nsvq help X` as `nsvq X --help`, home folders
/// for ~, present spellings. Throws UserError for unknown commands and empty words.
std::vector<std::string> read_words(std::vector<std::string> words, const CLI::App& app);

/// What is wrong with the arguments of `app`'s command, in a line that ends with the help to ask
/// for; `words` is what was parsed.
std::string describe_error(const CLI::ParseError& error, const CLI::App& app,
                           const std::vector<std::string>& words);

/// Whether the words ask for help with --all.
bool asks_for_all_help(const std::vector<std::string>& words);

/// `nsvq help COMMAND` in lines of the terminal's width: on a page of 24 lines of 80 columns what
/// is used daily, each text up to its first semicolon; with `all` every option (kRare), whole
/// texts, footers and exit codes.
std::shared_ptr<CLI::FormatterBase> help_formatter(bool all);

}  // namespace nsvq
