#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bench/program.h"
#include "tests/cli/run.h"

namespace nsvq {

/// nsvq_bench with these arguments, in this process.
inline Result run_bench(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "nsvq_bench");
  std::vector<const char*> argv;
  for (const auto& argument : arguments) argv.push_back(argument.c_str());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = run_benchmarks(static_cast<int>(argv.size()), argv.data());
  std::fflush(stdout);
  return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

}  // namespace nsvq
