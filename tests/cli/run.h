#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "nsvq/cli/program/program.h"
#include "tests/expect_contains.h"

namespace nsvq {

struct Result {
  int code;
  std::string out, error;
};

/// The program with these arguments, in this process.
inline Result run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "nsvq");
  std::vector<char*> argv;
  for (auto& argument : arguments) argv.push_back(argument.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = run_program(static_cast<int>(argv.size()), argv.data());
  std::fflush(stdout);
  return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

/// An exit code and one line on standard error that holds each of the words.
inline void expect_failure(const Result& result, int code, const std::vector<std::string>& words) {
  EXPECT_EQ(result.code, code) << result.error;
  EXPECT_EQ(std::count(result.error.begin(), result.error.end(), '\n'), 1) << result.error;
  expect_contains(result.error, words);
}

}  // namespace nsvq
