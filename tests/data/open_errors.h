#pragma once

#include <string>
#include <vector>

#include "nsvq/data/sources/source.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"

namespace nsvq::testing_files {

/// The message of the UserError that opening `spec` throws; one line.
inline std::string open_error(const std::string& spec) {
  return error_of([&] { open_source(spec); });
}

inline void expect_open_error(const std::string& spec, const std::vector<std::string>& parts) {
  expect_contains(open_error(spec), parts);
}

}  // namespace nsvq::testing_files
