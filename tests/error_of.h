#pragma once

#include <gtest/gtest.h>

#include <string>

#include "nsvq/core/error.h"

namespace nsvq {

/// The error of a call, which must be a UserError (or another `Error`) of one line.
template <typename Error = UserError, typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  }
  ADD_FAILURE() << "no error";
  return "";
}

}  // namespace nsvq
