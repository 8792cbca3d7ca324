#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "nsvq/settings/option.h"

namespace nsvq {

/// A value that does not go with the chosen member of a family, such as quantizer.rotation with a
/// quantizer that has no nearest code.
struct Unusable {
  std::string key;
  std::string instead;      ///< the value that goes with the member, as YAML
  std::string reason;       ///< for the log
  std::string unless = "";  ///< another key: where the user sets that, the value stays too
};

/// The settings of a program: a row for each, bound to the fields of a struct, and what holds
/// between them. A program brings its own struct and a function that binds a table to it
/// (option_table); everything below works on any table.
class OptionTable {
 public:
  std::vector<Option> rows;  ///< rows of a section stand together
  /// Values for keys that nothing sets, of another file that the settings name, as "key=value".
  /// Asked for once everything is read; a key of theirs has no dependent default. May be empty.
  std::function<std::vector<std::string>()> inherited = {};
  /// Defaults that depend on other settings, as "key=value". Asked for once everything is read;
  /// they hold for keys that neither recipe nor command line sets. May be empty.
  std::function<std::vector<std::string>()> dependent_defaults;
  /// The key of the setting that chooses a member of a family (quantizer.type), and a function that
  /// lists the values at hand that the chosen member cannot use. Such a value gives way if a recipe
  /// set it for another member (SettingsReader). Both may be empty.
  std::string chooser = "";
  std::function<std::vector<Unusable>()> unusable = {};
  /// Throws UserError when settings that are valid one by one contradict each other. May be empty.
  std::function<void()> check;
  /// Sections of another program's recipes and what such a recipe is, for the message about a key
  /// of theirs.
  std::map<std::string, std::string> other_sections = {};
  /// Words that other programs have for keys, in lower case, with the keys.
  std::map<std::string, std::string> other_words = {};
  /// Where all keys are listed, for the message about an unknown one.
  std::string help = "";

  /// Sets the fields from a YAML recipe (empty path: none) and from `key=value` overrides. Unknown
  /// key, wrong type, value out of range: UserError in one line with file, line, key and the
  /// nearest valid name.
  void load(const std::string& path, const std::vector<std::string>& overrides = {}) const;

  /// Sets the fields from a recipe's text, as a checkpoint carries it; errors call it `source`.
  void parse(const std::string& text, const std::string& source) const;

  /// All settings as a YAML recipe that `load` reads back to equal values.
  std::string to_yaml() const;

  /// Settings that have an effect on the result and differ from those of `other`, a table of the
  /// same rows, each as "key (a here, b there)".
  std::vector<std::string> differences(const OptionTable& other) const;

  /// The keys that a word which is none of them may stand for, at most three, the likeliest first:
  /// a misspelt key, a word of other programs, a key of another section. Empty if none is
  /// close.
  std::vector<std::string> keys_meant(const std::string& word) const;

  /// Every key with type, current value as its default, range and meaning, as text.
  std::string reference() const;
};

}  // namespace nsvq
