#include "nsvq/data/sources/dead_leaves.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>
#include <system_error>
#include <vector>

#include "nsvq/core/lookup.h"

namespace nsvq {

namespace {

class DeadLeavesSource : public Source {
 public:
  DeadLeavesSource(int size, int64_t count, uint64_t seed)
      : side_(size), count_(count), seed_(seed) {}

  int64_t size() const override { return count_; }
  std::string key(int64_t index) const override { return fmt::format("dead-leaves/{:06}", index); }
  int64_t label(int64_t) const override { return -1; }
  Image load(int64_t index) const override { return dead_leaves(seed_, index, side_); }

 private:
  int side_;
  int64_t count_;
  uint64_t seed_;
};

struct Parameter {
  std::string name;
  int64_t value, lowest, highest;
};

int64_t parse_value(const Parameter& parameter, std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = !text.empty() && error == std::errc() && end == text.data() + text.size();
  if (!whole || value < parameter.lowest || value > parameter.highest) {
    throw UserError("builtin:dead-leaves: {} must be a whole number from {} to {}, not {}",
                    parameter.name, parameter.lowest, parameter.highest, quote(text));
  }
  return value;
}

/// Parses one `name=value` of the query.
void set_parameter(std::vector<Parameter>& parameters, std::string_view part) {
  const size_t equals = part.find('=');
  const std::string_view name = part.substr(0, equals);
  auto& parameter = find_named(parameters, "parameter", name, "builtin:dead-leaves");
  if (equals == std::string_view::npos) {
    throw UserError("builtin:dead-leaves: {} needs a value, as in {}={}", name, name,
                    parameter.value);
  }
  parameter.value = parse_value(parameter, part.substr(equals + 1));
}

/// Size, count and seed.
std::vector<Parameter> parse_builtin(const std::string& text) {
  const size_t mark = text.find('?');
  const std::string name = text.substr(0, mark);
  if (name != "dead-leaves") {
    throw UserError("no built-in images called {}; there is builtin:dead-leaves", quote(name));
  }
  std::vector<Parameter> parameters = {
      {"size", 64, 8, 4096}, {"count", 2048, 1, 100'000'000}, {"seed", 0, 0, INT64_MAX}};
  std::string_view query = text;
  query.remove_prefix(mark == std::string::npos ? text.size() : mark + 1);
  while (!query.empty()) {
    const std::string_view part = query.substr(0, query.find('&'));
    set_parameter(parameters, part);
    query.remove_prefix(std::min(part.size() + 1, query.size()));
  }
  return parameters;
}

}  // namespace

std::unique_ptr<Source> open_builtin(const std::string& text) {
  const auto parameters = parse_builtin(text);
  return std::make_unique<DeadLeavesSource>(static_cast<int>(parameters[0].value),
                                            parameters[1].value,
                                            static_cast<uint64_t>(parameters[2].value));
}

std::string drawn_pictures(const std::string& text) {
  const auto parameters = parse_builtin(text);
  return fmt::format("dead-leaves?size={}&seed={}", parameters[0].value, parameters[2].value);
}

}  // namespace nsvq
