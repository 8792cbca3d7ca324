#pragma once

#include <any>
#include <cstdint>
#include <map>
#include <string>
#include <typeindex>
#include <variant>
#include <vector>

#include "nsvq/settings/range.h"
#include "nsvq/settings/sources.h"
#include "nsvq/settings/yaml.h"

namespace nsvq {

using Field = std::variant<bool*, int64_t*, double*, std::string*, std::vector<int64_t>*,
                           std::vector<std::string>*, Sources*>;

/// Whether another value of a setting gives another result. A checkpoint is continued only with
/// equal values of the settings that do; paths, logs and the budget do not.
enum class Effect { on_result, not_on_result };
inline constexpr Effect kNotOnResult = Effect::not_on_result;

/// One setting: the key in recipes and the field it sets.
struct Option {
  std::string key;
  Field field;
  std::string help;
  Range range;
  Effect effect = Effect::on_result;

  /// The key's part before the last dot, empty without one, and the part after it.
  std::string section() const;
  std::string name() const;
  /// boolean, integer, number, text, name, integers, names or sources.
  std::string type() const;
  /// The field's value as YAML.
  std::string value() const;
  /// Sets the field, or leaves it and returns what was expected instead of `value`.
  [[nodiscard]] std::string assign(const YamlValue& value) const;
};

/// The rows of several sections in their order.
std::vector<Option> joined(const std::vector<std::vector<Option>>& sections);

/// The rows with these keys in the order of `rows`; a text that is not empty replaces a row's help.
std::vector<Option> selected(const std::vector<Option>& rows,
                             const std::map<std::string, std::string>& keys);

/// Throws UserError, naming the key, if a field is out of its range: for settings that a program
/// makes itself, where no recipe was read.
void require_in_range(const std::vector<Option>& options);

/// Structs of settings, looked up by their type: what single members of a family (quantizers,
/// losses, replacement policies) add to the settings that all of them share. So a member's struct
/// stands beside the family's kinds (nsvq/quantizers/members.h):
///
///     struct FsqConfig { std::vector<int64_t> levels = {8, 8, 8, 5, 5, 5}; };
///     config.quantizer.of<FsqConfig>().levels
///
/// Copies are independent of each other. A reference stays valid until the object is assigned to
/// or destroyed.
class MemberSettings {
 public:
  template <typename Settings>
  Settings& of() {
    auto& held = settings_[typeid(Settings)];
    if (!held.has_value()) held = Settings{};
    return *std::any_cast<Settings>(&held);
  }
  /// Defaults where nothing was set.
  template <typename Settings>
  const Settings& of() const {
    static const Settings defaults;
    const auto found = settings_.find(typeid(Settings));
    return found == settings_.end() ? defaults : *std::any_cast<Settings>(&found->second);
  }

 private:
  std::map<std::type_index, std::any> settings_;
};

}  // namespace nsvq
