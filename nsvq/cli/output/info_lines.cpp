#include "nsvq/cli/output/info_lines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "nsvq/core/text.h"

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

void print_classes(const std::vector<std::string>& names) {
  constexpr size_t most = 10;
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(most, names.size()); ++i) shown.push_back(printable(names[i]));
  const auto text = fmt::format("{}: {}{}", names.size(), fmt::join(shown, ", "),
                                names.size() > most ? ", ..." : "");
  fmt::print("{:12} {}\n", "classes", names.empty() ? "no names" : text);
}

}  // namespace nsvq
