#include "nsvq/cli/info_lines.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "nsvq/core/printable.h"

namespace nsvq {

namespace {

std::string shown_value(const nlohmann::ordered_json& value) {
  if (value.is_string()) return printable(value.get<std::string>());
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (!value.is_array()) return value.dump();
  std::string text;
  for (const auto& entry : value) text += (text.empty() ? "" : "x") + entry.dump();
  return text;
}

}  // namespace

void print_values(const nlohmann::ordered_json& json) {
  for (const auto& [key, value] : json.items()) {
    if (!value.is_object()) fmt::print("{:12} {}\n", key, shown_value(value));
  }
}

}  // namespace nsvq
