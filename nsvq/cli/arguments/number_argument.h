#pragma once

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <string>

#include "nsvq/core/text.h"
#include "nsvq/settings/range.h"

namespace nsvq {

/// For CLI::Option::check: what is wrong with a number. CLI11's own ranges let NaN pass.
inline std::function<std::string(const std::string&)> check_number(const Range& range) {
  return [range](const std::string& text) -> std::string {
    double value = NAN;
    size_t read = 0;
    try {
      value = std::stod(text, &read);
    } catch (const std::exception&) {
      read = 0;
    }
    if (read == text.size() && std::isfinite(value) && range.contains(value)) return "";
    return fmt::format("{} is not a number ({})", quote(text), range.text);
  };
}

}  // namespace nsvq
