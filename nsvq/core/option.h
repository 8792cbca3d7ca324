#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "nsvq/core/yaml.h"

namespace nsvq {

/// Which values a field takes. For a list, `low`, `high` and `choices` hold for each entry.
struct Range {
  std::string text;  ///< as the reference and error messages show it
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool above_low = false;   ///< `low` itself is not allowed
  bool below_high = false;  ///< `high` itself is not allowed
  std::vector<std::string> choices;
  size_t fewest = 0;  ///< entries of a list, bytes of a text
  size_t most = std::numeric_limits<size_t>::max();
};

using Field = std::variant<bool*, int64_t*, double*, std::string*, std::vector<int64_t>*,
                           std::vector<std::string>*>;

/// One setting: the key in recipes and the field it sets.
struct Option {
  std::string key;
  Field field;
  std::string help;
  Range range;
  /// Whether another value makes another run, so that a checkpoint of it cannot be continued.
  bool essential = true;

  /// The part of the key before the dot; empty for a key without one.
  std::string section() const;
  /// boolean, integer, number, text, name, integers or names.
  std::string type() const;
  /// The field's value as YAML.
  std::string value() const;
  /// Sets the field, or leaves it and returns what was expected instead of `value`.
  [[nodiscard]] std::string assign(const YamlValue& value) const;
};

}  // namespace nsvq
