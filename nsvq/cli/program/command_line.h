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

// Words that read_words and describe_error know beside those of today's commands.

/// The words of a command line with the present names of commands and options that were renamed; a
/// line of the log for each says the new one. Throws UserError for a command that is gone.
std::vector<std::string> with_present_spellings(std::vector<std::string> words);

/// For a word that is no command but that people type for one: what to type, and the command whose
/// help tells more, as "; nsvq train RUN --resume does that (nsvq help train)". Else empty.
std::string command_meant(const std::string& word);

/// The key=value word to write in place of an option that a command with settings does not have:
/// "train.batch_size=4" for `--batch-size 4` among the words of a command line. Empty if no setting
/// is meant.
std::string setting_meant(const std::string& option, const std::vector<std::string>& words);

}  // namespace nsvq
