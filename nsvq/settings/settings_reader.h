#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "nsvq/settings/option_table.h"
#include "nsvq/settings/yaml.h"

namespace nsvq {

/// Reads recipes and overrides into the fields of a table, and remembers which keys they set.
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
  /// Defaults that depend on other settings, then the check across settings; its errors begin with
  /// `where`.
  void finish(const std::string& where);

 private:
  const Option* row(const std::string& key) const;  ///< null if there is none
  void apply(const YamlSetting& setting);
  void read_bases(const YamlSetting& setting, const std::filesystem::path& folder);
  void apply_again(const YamlSetting& setting);
  std::vector<YamlSetting> parse_override(const std::string& text, const std::string& source) const;

  const OptionTable& table_;
  std::set<std::string> set_;
  std::vector<std::filesystem::path> chain_;  ///< files being read, for cycles
  int files_ = 0;                             ///< read so far
};

}  // namespace nsvq
