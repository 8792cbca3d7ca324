#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace nsvq {

/// A scalar, a list of scalars, or nothing (`key:` alone).
struct YamlValue {
  enum class Kind { kNothing, kScalar, kList };
  struct Scalar {
    std::string text;
    bool quoted = false;
  };
  Kind kind = Kind::kNothing;
  std::vector<Scalar> scalars;

  /// For error messages.
  std::string shown() const;
};

/// A key with its value; nested maps are flattened: `data: {size: 64}` has the key data.size.
struct YamlSetting {
  std::string key;
  YamlValue value;
  std::string where;  ///< "file:line", or the source alone
};

/// Parses one YAML document of nested maps. Anything else, duplicate keys, anchors, aliases and
/// tags: UserError with source and line.
std::vector<YamlSetting> parse_yaml(std::string_view text, const std::string& source);

/// Parses the value of one key, as for `key=value` on the command line.
std::vector<YamlSetting> parse_yaml_value(const std::string& key, std::string_view text,
                                          const std::string& source);

/// What is likely wrong where a YAML parser gave up at a line of a text, counted from 1: its
/// indentation, a missing colon, a missing bracket.
std::string likely_yaml_mistake(std::string_view text, int line);

/// What is wrong with the indentation of a line; empty if it fits the lines above it.
std::string wrong_indentation(std::string_view text, int line);

}  // namespace nsvq
