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

/// The words of a command line with the present names of commands and options that were renamed; a
/// line of the log for each says the new one. Throws UserError for a command that is gone.
std::vector<std::string> with_present_spellings(std::vector<std::string> words);

/// What is wrong with the arguments of `app`'s command, in a line that ends with the help to ask
/// for.
std::string describe_error(const CLI::ParseError& error, const CLI::App& app);

/// `nsvq help COMMAND` in lines of at most 100 columns, without CLI11's types and ranges.
std::shared_ptr<CLI::FormatterBase> help_formatter();

}  // namespace nsvq
