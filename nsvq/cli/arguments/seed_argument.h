#pragma once

#include <string>

#include "nsvq/core/text.h"

namespace nsvq {

/// For CLI::Option::check: what is wrong with a seed; nothing for a good one.
inline std::string check_seed(const std::string& text) {
  return parse_decimal(text)
             ? ""
             : quote(text) + " is not a seed: a whole number, 0 or more, of at most 18 digits";
}

}  // namespace nsvq
