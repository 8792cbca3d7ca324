#include "bench/profile.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <regex>

#include "nsvq/io/files/file.h"

namespace nsvq {
namespace {

/// The kernels that a file of CUDA code defines, as a profile names them.
std::vector<std::string> kernels_in(const std::string& code) {
  static const std::regex space(R"(namespace (nsvq[\w:]*))");
  static const std::regex kernel(
      R"(__global__\s+void\s+(?:__launch_bounds__\((?:[^()]|\([^()]*\))*\)\s*)?(\w+)\()");
  std::smatch found;
  const std::string prefix = std::regex_search(code, found, space) ? found[1].str() + "::" : "";
  std::vector<std::string> names;
  for (std::sregex_iterator it(code.begin(), code.end(), kernel), end; it != end; ++it) {
    names.push_back("void " + prefix + (*it)[1].str() + "<2>(nsvq::SearchPass)");
  }
  return names;
}

TEST(KernelProfile, KnowsTheKernelsOfTheSearchAndOfCodeStatistics) {
  int count = 0;
  for (const std::string folder : {"code_search", "code_statistics"}) {
    const std::filesystem::path path = NSVQ_TESTS_DIR "/../../nsvq/ops/" + folder;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (!entry.path().extension().string().starts_with(".cu")) continue;
      for (const auto& name : kernels_in(read_text(entry.path()))) {
        EXPECT_EQ(by_family({{name, 1, 1}}).at(0).name, "search and NS loss") << name;
        ++count;
      }
    }
  }
  EXPECT_GT(count, 14);
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
