#include "nsvq/tokenizer/layouts/names.h"

#include <algorithm>
#include <utility>

#include "nsvq/core/text.h"

namespace nsvq {

namespace {

constexpr size_t kMostDigits = 9;  // of a number in a name

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_number(char wildcard) { return wildcard == '#' || wildcard == '+' || wildcard == '~'; }

/// A wildcard, and what it stands for in a name.
struct Match {
  char wildcard;
  std::string text;
};

/// The parts of a name; nullopt where it does not fit the pattern.
std::optional<std::vector<Match>> match(std::string_view pattern, std::string_view name) {
  std::vector<Match> parts;
  size_t at = 0;
  for (const char c : pattern) {
    if (c == '*') {
      parts.push_back({c, std::string(name.substr(at))});
      return parts;
    }
    size_t end = at;
    if (is_number(c)) {
      while (end < name.size() && end - at < kMostDigits && is_digit(name[end])) ++end;
      parts.push_back({c, std::string(name.substr(at, end - at))});
    } else if (at < name.size() && name[at] == c) {
      ++end;
    }
    if (end == at) return std::nullopt;
    at = end;
  }
  if (at < name.size()) return std::nullopt;
  return parts;
}

std::string fill(std::string_view pattern, const std::vector<Match>& parts) {
  std::string name;
  size_t part = 0;
  for (const char c : pattern) {
    if (is_number(c) || c == '*') {
      name += parts.at(part++).text;
    } else {
      name += c;
    }
  }
  return name;
}

int64_t number_in(const Match& part) { return parse_decimal(part.text).value_or(0); }

}  // namespace

Renaming::Renaming(std::vector<NameRule> rules, Side from, const std::vector<std::string>& names)
    : rules_(std::move(rules)), from_(from) {
  for (const auto& rule : rules_) {
    if (pattern(rule, from_).find('~') == std::string::npos) continue;
    for (const auto& name : names) {
      for (const auto& part : match(pattern(rule, from_), name).value_or(std::vector<Match>())) {
        if (part.wildcard == '~') levels_ = std::max(levels_, number_in(part) + 1);
      }
    }
  }
}

const std::string& Renaming::pattern(const NameRule& rule, Side side) const {
  return side == Side::theirs ? rule.theirs : rule.ours;
}

std::optional<Renaming::Result> Renaming::operator()(std::string_view name) const {
  const auto to = from_ == Side::theirs ? Side::ours : Side::theirs;
  for (const auto& rule : rules_) {
    auto parts = match(pattern(rule, from_), name);
    if (!parts) continue;
    for (auto& part : *parts) {
      if (part.wildcard == '~') part.text = std::to_string(levels_ - 1 - number_in(part));
      if (part.wildcard == '+') {
        part.text = std::to_string(number_in(part) + (to == Side::ours ? 1 : -1));
      }
    }
    return Result{fill(pattern(rule, to), *parts), rule.form};
  }
  return std::nullopt;
}

bool fits(std::string_view pattern, std::string_view name) {
  return match(pattern, name).has_value();
}

std::vector<int64_t> sizes_on(Side to, Form form, std::vector<int64_t> sizes) {
  if (form == Form::same || form == Form::fused_there) return sizes;
  const bool linear = (form == Form::linear_there) == (to == Side::theirs);
  if (linear && sizes.size() == 4 && sizes[2] == 1 && sizes[3] == 1) sizes.resize(2);
  if (!linear && sizes.size() == 2) sizes.insert(sizes.end(), {1, 1});
  return sizes;
}

}  // namespace nsvq
