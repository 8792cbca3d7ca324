#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace nsvq {

/// Each of the parts is in the text.
inline void expect_contains(const std::string& text, const std::vector<std::string>& parts) {
  for (const auto& part : parts) EXPECT_NE(text.find(part), std::string::npos) << text;
}

}  // namespace nsvq
