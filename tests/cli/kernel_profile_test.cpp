#include "nsvq/cli/kernel_profile.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <regex>

#include "nsvq/io/file.h"

namespace nsvq {
namespace {

/// The kernels that a file of CUDA code defines, by their names' ending.
std::vector<std::string> kernels_in(const std::string& code) {
  static const std::regex name(R"(__global__[^;{]*?\b(\w+_kernel)\()");
  std::vector<std::string> names;
  for (std::sregex_iterator it(code.begin(), code.end(), name), end; it != end; ++it) {
    names.push_back((*it)[1]);
  }
  return names;
}

TEST(KernelProfile, KnowsTheKernelsOfTheSearch) {
  const std::filesystem::path folder = NSVQ_TESTS_DIR "/../../nsvq/ops/code_search";
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".cu") continue;
    for (const auto& name : kernels_in(read_text(entry.path()))) {
      const auto families = by_family(
          {{"void nsvq::(anonymous namespace)::" + name + "<2>(nsvq::SearchPass)", 1, 1}});
      EXPECT_EQ(families.at(0).name, "search and NS loss") << name;
      ++count;
    }
  }
  EXPECT_GT(count, 10);
}

TEST(KernelProfile, KernelsOfAFamilyAreOne) {
  const auto families = by_family({{"cudnn::one", 1, 2}, {"cudnn::two", 0.5, 1}, {"mine", 3, 1}});
  ASSERT_EQ(families.size(), 2);
  EXPECT_EQ(families[0].name, "other");
  EXPECT_EQ(families[1].name, "convolutions");
  EXPECT_EQ(families[1].milliseconds, 1.5);
  EXPECT_EQ(families[1].launches, 3);
}

}  // namespace
}  // namespace nsvq
