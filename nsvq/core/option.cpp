#include "nsvq/core/option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

#include "nsvq/core/text.h"

namespace nsvq {

namespace {

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};

bool contains(const Range& range, double value) {
  const bool low_enough = range.below_high ? value < range.high : value <= range.high;
  const bool high_enough = range.above_low ? value > range.low : value >= range.low;
  return low_enough && high_enough;
}

bool contains(const Range& range, const std::string& value) {
  if (range.choices.empty()) return value.size() >= range.fewest;
  return std::find(range.choices.begin(), range.choices.end(), value) != range.choices.end();
}

template <typename T>
std::optional<T> read_number(const YamlValue::Scalar& scalar) {
  T number{};
  const char* end = scalar.text.data() + scalar.text.size();
  const auto result = std::from_chars(scalar.text.data(), end, number);
  if (scalar.quoted || result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return number;
}

/// A scalar as a T within the range, or nothing.
template <typename T>
std::optional<T> read(const YamlValue::Scalar& scalar, const Range& range) {
  if constexpr (std::is_same_v<T, bool>) {
    if (scalar.quoted || !contains(range, scalar.text)) return std::nullopt;
    return scalar.text == "true";
  } else if constexpr (std::is_same_v<T, std::string>) {
    return contains(range, scalar.text) ? std::optional(scalar.text) : std::nullopt;
  } else {
    const auto number = read_number<T>(scalar);
    if (!number || !std::isfinite(static_cast<double>(*number))) return std::nullopt;
    return contains(range, static_cast<double>(*number)) ? number : std::nullopt;
  }
}

template <typename T>
bool assign_to(T& field, const YamlValue& value, const Range& range) {
  if (value.kind != YamlValue::Kind::kScalar) return false;
  const auto read_value = read<T>(value.scalars[0], range);
  if (read_value) field = *read_value;
  return read_value.has_value();
}

template <typename T>
bool assign_to(std::vector<T>& field, const YamlValue& value, const Range& range) {
  const size_t count = value.scalars.size();
  if (value.kind != YamlValue::Kind::kList || count < range.fewest || count > range.most)
    return false;
  std::vector<T> entries;
  for (const auto& scalar : value.scalars) {
    const auto entry = read<T>(scalar, range);
    if (!entry) return false;
    entries.push_back(*entry);
  }
  field = std::move(entries);
  return true;
}

}  // namespace

std::string Option::section() const {
  const size_t dot = key.rfind('.');
  return dot == std::string::npos ? "" : key.substr(0, dot);
}

std::string Option::type() const {
  return std::visit(Overloaded{
                        [](const bool*) { return "boolean"; },
                        [](const int64_t*) { return "integer"; },
                        [](const double*) { return "number"; },
                        [&](const std::string*) { return range.choices.empty() ? "text" : "name"; },
                        [](const std::vector<int64_t>*) { return "integers"; },
                        [](const std::vector<std::string>*) { return "names"; },
                    },
                    field);
}

std::string Option::value() const {
  return std::visit(Overloaded{
                        [](const std::string* text) { return yaml_text(*text); },
                        [](const std::vector<std::string>* names) {
                          std::vector<std::string> texts;
                          for (const auto& name : *names) texts.push_back(yaml_text(name));
                          return fmt::format("[{}]", fmt::join(texts, ", "));
                        },
                        [](const std::vector<int64_t>* numbers) {
                          return fmt::format("[{}]", fmt::join(*numbers, ", "));
                        },
                        // fmt writes the shortest number that reads back to the same double.
                        [](const auto* number) { return fmt::format("{}", *number); },
                    },
                    field);
}

std::string Option::assign(const YamlValue& value) const {
  const bool taken =
      std::visit([&](auto* target) { return assign_to(*target, value, range); }, field);
  if (taken) return "";
  std::string hint;
  for (const auto& scalar : value.scalars)
    if (!range.choices.empty() && !contains(range, scalar.text) && hint.empty())
      hint = did_you_mean(scalar.text, range.choices);
  const bool list = type().back() == 's';
  return fmt::format("expected {}{} ({}), got {}{}", list ? "a list of " : "", type(), range.text,
                     value.shown(), hint);
}

}  // namespace nsvq
