#include "nsvq/data/sources/patterns.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nsvq/core/error.h"

namespace nsvq {
namespace {

using Names = std::vector<std::string>;

TEST(Patterns, BracesExpand) {
  EXPECT_EQ(expand_braces("a"), Names({"a"}));
  EXPECT_EQ(expand_braces(""), Names({""}));
  EXPECT_EQ(expand_braces("x{00..03}.tar"), Names({"x00.tar", "x01.tar", "x02.tar", "x03.tar"}));
  EXPECT_EQ(expand_braces("{8..11}"), Names({"8", "9", "10", "11"}));
  EXPECT_EQ(expand_braces("{008..010}"), Names({"008", "009", "010"}));
  EXPECT_EQ(expand_braces("{2..0}"), Names({"2", "1", "0"}));
  EXPECT_EQ(expand_braces("{5..5}"), Names({"5"}));
  EXPECT_EQ(expand_braces("{a,b}{0..1}"), Names({"a0", "a1", "b0", "b1"}));
  EXPECT_EQ(expand_braces("{a,b{0..1}}c"), Names({"ac", "b0c", "b1c"}));
  EXPECT_EQ(expand_braces("{,x}y"), Names({"y", "xy"}));
}

TEST(Patterns, BadBracesAreErrors) {
  for (const char* text : {"{", "}", "a{b", "a}b", "{a}", "{}", "{a..c}", "}{", "{1..}", "{..2}",
                           "{-1..2}", "{0..999999999999}", "{0..9999}{0..9999}",
                           "{{0..999999},x}{0..999999}", "{{0..999999},{0..999999}}"}) {
    EXPECT_THROW(expand_braces(text), UserError) << text;
  }
}

TEST(Patterns, HugeOnesAreRefusedBeforeTheyAreMade) {
  std::string many, deep(100'000, '{');
  for (int i = 0; i < 20'000; ++i) many += "{a,b}";
  EXPECT_THROW(expand_braces(many), UserError);
  for (int i = 0; i < 100'000; ++i) deep += ",}";
  EXPECT_THROW(expand_braces(deep), UserError);
  // A million paths of a kilobyte, and a million digits.
  EXPECT_THROW(expand_braces(std::string(1000, 'x') + "{0..999999}"), UserError);
  EXPECT_THROW(expand_braces("{0.." + std::string(1'000'000, '0') + "9}"), UserError);
  try {
    expand_braces(many);
  } catch (const UserError& error) {
    EXPECT_LT(std::string(error.what()).size(), 300U);
  }
}

TEST(Patterns, ListsSplitOutsideBraces) {
  EXPECT_EQ(split_list("a,b"), Names({"a", "b"}));
  EXPECT_EQ(split_list("a{1,2},b[,]"), Names({"a{1,2}", "b[,]"}));
  EXPECT_EQ(split_list("a,"), Names({"a", ""}));
}

}  // namespace
}  // namespace nsvq
