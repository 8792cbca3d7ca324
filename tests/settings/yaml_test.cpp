#include "nsvq/settings/yaml.h"

#include <gtest/gtest.h>

#include <string>

#include "nsvq/core/error.h"

namespace nsvq {
namespace {

// yaml-cpp's own loading of all documents does not end for some texts of this kind.
TEST(Yaml, StrayBracketsAreRefused) {
  for (const std::string text : {"]", "}", "a: 1\n]", "a: 1\n}\nb: 2\n", "a: [1]]\n",
                                 "a: {b: 1}}\n", "a: 1\n] ]\n", "a: 1\n,\n"}) {
    EXPECT_THROW(parse_yaml(text, "recipe.yaml"), UserError) << text;
  }
}

}  // namespace
}  // namespace nsvq
