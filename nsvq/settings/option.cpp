#include "nsvq/settings/option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"

namespace nsvq {

namespace {

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;  // clang before 17 does not find it by itself

template <typename T>
std::optional<T> read_number(const YamlValue::Scalar& scalar) {
  T number{};
  const char* end = scalar.text.data() + scalar.text.size();
  const auto result = std::from_chars(scalar.text.data(), end, number);
  if (scalar.quoted || result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return number;
}

/// A whole number that is written with an exponent, such as 1e3; nothing for 1e-3 and for numbers
/// that a double does not hold exactly.
std::optional<int64_t> read_integer(const YamlValue::Scalar& scalar) {
  if (const auto integer = read_number<int64_t>(scalar)) return integer;
  constexpr double most_exact = 9007199254740992;  // 2^53
  const auto number = read_number<double>(scalar);
  const bool exponent = scalar.text.find_first_of("eE") != std::string::npos;
  if (!number || !exponent || !(std::abs(*number) <= most_exact)) return std::nullopt;
  if (*number != std::floor(*number)) return std::nullopt;
  return static_cast<int64_t>(*number);
}

/// "; write 10000" for 10k, 10_000 and 10,000 in place of an integer; else nothing.
std::string written_out(const std::string& text) {
  std::string digits;
  for (const char c : text) {
    if (c != '_' && c != ',' && c != '\'') digits += c;
  }
  const std::string factors = "kKmM";
  const size_t factor = digits.empty() ? factors.npos : factors.find(digits.back());
  if (factor != factors.npos) digits.back() = '0';
  if (factor != factors.npos) digits += factor < 2 ? "00" : "00000";
  const bool leading_zero = digits.starts_with('0');
  return digits != text && !leading_zero && parse_decimal(digits) ? "; write " + digits : "";
}

/// "; did you mean 'cuda'?" for a word that is none of the choices, or nothing.
std::string hint_at_choice(const std::string& word, const Range& range) {
  const auto found = range.other_words.find(lower_case(word));
  if (found != range.other_words.end()) return fmt::format("; did you mean '{}'?", found->second);
  return did_you_mean(word, range.choices);
}

/// A scalar as a T within the range, or nothing.
template <typename T>
std::optional<T> read(const YamlValue::Scalar& scalar, const Range& range) {
  if constexpr (std::is_same_v<T, bool>) {
    if (scalar.quoted || !range.contains(scalar.text)) return std::nullopt;
    return scalar.text == "true";
  } else if constexpr (std::is_same_v<T, std::string>) {
    return range.contains(scalar.text) ? std::optional(scalar.text) : std::nullopt;
  } else {
    std::optional<T> number;
    if constexpr (std::is_same_v<T, int64_t>) {
      number = read_integer(scalar);
    } else {
      number = read_number<T>(scalar);
    }
    if (!number || !std::isfinite(static_cast<double>(*number))) return std::nullopt;
    return range.contains(static_cast<double>(*number)) ? number : std::nullopt;
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

/// One text is a list of one.
bool assign_to(Sources& field, const YamlValue& value, const Range& range) {
  if (value.kind == YamlValue::Kind::kScalar) {
    std::string item;
    if (!assign_to(item, value, range)) return false;
    field = std::move(item);
    return true;
  }
  return assign_to(field.items, value, range);
}

/// In a list a question mark is the sign of a key to yaml-cpp.
std::string yaml_item(const std::string& name) {
  const auto text = yaml_text(name);
  const bool plain = !text.starts_with('"');
  return plain && text.find('?') != std::string::npos ? '"' + text + '"' : text;
}

std::string yaml_list(const std::vector<std::string>& names) {
  std::vector<std::string> texts;
  for (const auto& name : names) texts.push_back(yaml_item(name));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

}  // namespace

std::string Option::section() const {
  const size_t dot = key.rfind('.');
  return dot == std::string::npos ? "" : key.substr(0, dot);
}

std::string Option::name() const { return key.substr(key.rfind('.') + 1); }

std::string Option::type() const {
  return std::visit(Overloaded{
                        [](const bool*) { return "boolean"; },
                        [](const int64_t*) { return "integer"; },
                        [](const double*) { return "number"; },
                        [&](const std::string*) { return range.choices.empty() ? "text" : "name"; },
                        [](const std::vector<int64_t>*) { return "integers"; },
                        [](const std::vector<std::string>*) { return "names"; },
                        [](const Sources*) { return "sources"; },
                    },
                    field);
}

std::string Option::value() const {
  return std::visit(Overloaded{
                        [](const std::string* text) { return yaml_text(*text); },
                        [](const std::vector<std::string>* names) { return yaml_list(*names); },
                        [](const Sources* sources) {
                          const auto& items = sources->items;
                          return items.size() == 1 ? yaml_text(items[0]) : yaml_list(items);
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
  const bool list = type() == "integers" || type() == "names";
  const bool integers = type() == "integer" || type() == "integers";
  std::string hint;
  for (const auto& scalar : value.scalars) {
    if (!hint.empty()) break;
    if (integers) hint = written_out(scalar.text);
    if (!range.choices.empty() && !range.contains(scalar.text)) {
      hint = hint_at_choice(scalar.text, range);
    }
  }
  if (type() == "names" && value.kind == YamlValue::Kind::kScalar) {
    const auto& name = value.scalars.front().text;
    if (!name.empty() && range.contains(name)) hint = fmt::format("; a list of one is [{}]", name);
  }
  return fmt::format("expected {}{} ({}), got {}{}", list ? "a list of " : "", type(), range.text,
                     value.shown(), hint);
}

std::vector<Option> joined(const std::vector<std::vector<Option>>& sections) {
  std::vector<Option> rows;
  for (const auto& section : sections) rows.insert(rows.end(), section.begin(), section.end());
  return rows;
}

std::vector<Option> selected(const std::vector<Option>& rows,
                             const std::map<std::string, std::string>& keys) {
  std::vector<Option> chosen;
  for (const auto& row : rows) {
    const auto found = keys.find(row.key);
    if (found == keys.end()) continue;
    chosen.push_back(row);
    if (!found->second.empty()) chosen.back().help = found->second;
  }
  return chosen;
}

void require_in_range(const std::vector<Option>& options) {
  for (const auto& option : options) {
    const auto settings = parse_yaml_value(option.key, option.value(), option.key);
    const std::string problem = option.assign(settings.at(0).value);
    if (!problem.empty()) throw UserError("{}: {}", option.key, problem);
  }
}

}  // namespace nsvq
