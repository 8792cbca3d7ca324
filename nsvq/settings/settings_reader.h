#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "nsvq/settings/option_table.h"
#include "nsvq/settings/yaml.h"

namespace nsvq {

/// Reads recipes and overrides into the fields of a table, and remembers where each key was set.
class SettingsReader {
 public:
  explicit SettingsReader(const OptionTable& table) : table_(table) {}

  /// Applies a recipe after those it is based on, in their order. `named` says, for errors, where
  /// its name came from.
  void read_file(const std::string& path, const std::string& named = "");
  void read_text(const std::string& text, const std::string& source);
  /// The key=value words of a command line. A key given twice is refused, except that sources are
  /// taken together: a shell makes two words of data.train=a-{0,1}.tar. Errors begin with `source`.
  void read_overrides(const std::vector<std::string>& texts,
                      const std::string& source = "command line");
  /// Values of another file, defaults that depend on other settings, values that give way, then the
  /// check across settings; its errors begin with `where`.
  ///
  /// A recipe's values were written for the member of a family that it chooses
  /// (OptionTable::chooser, quantizer.type). Where the command line or a recipe based on it chooses
  /// another member, values that this one cannot use (OptionTable::unusable) give way, with a line
  /// in the log. Values that the user wrote for the member stay, and are refused by whatever makes
  /// it: those on the command line, in the recipe that chooses the member, and in recipes based on
  /// that one.
  void finish(const std::string& where);

 private:
  /// Where a key was set.
  struct Origin {
    std::string where;             ///< "file:line"
    std::filesystem::path recipe;  ///< empty: the command line
  };

  const Option* row(const std::string& key) const;  ///< null if there is none
  void apply_default(const std::string& text);
  bool is_users_own(const std::string& key) const;
  void drop_unusable();
  void apply(const YamlSetting& setting);
  void read_bases(const YamlSetting& setting, const std::filesystem::path& folder);
  void apply_again(const YamlSetting& setting);
  void refuse_several_words(const std::vector<std::string>& texts, size_t at,
                            const std::string& source) const;
  std::vector<YamlSetting> parse_override(const std::string& text, const std::string& source) const;

  const OptionTable& table_;
  std::map<std::string, Origin> set_;
  std::vector<std::filesystem::path> chain_;     ///< recipes being read, each based on the next
  std::vector<std::filesystem::path> choosing_;  ///< `chain_` where the chooser was set last
  int files_ = 0;                                ///< read so far
};

}  // namespace nsvq
