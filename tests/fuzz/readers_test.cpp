#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>
#include <string>

#include "nsvq/core/log.h"
#include "nsvq/io/files/file.h"
#include "tests/fuzz/target.h"

namespace nsvq {

namespace {

namespace fs = std::filesystem;

class Readers : public testing::TestWithParam<FuzzTarget> {
 protected:
  void SetUp() override { set_quiet(true); }
  void TearDown() override { set_quiet(false); }
};

/// Some bytes changed, taken out, doubled, or put at their limits.
void mutate(Bytes& bytes, std::mt19937& random) {
  const auto below = [&](size_t limit) { return random() % std::max<size_t>(limit, 1); };
  for (size_t edits = 1 + below(4); edits > 0 && !bytes.empty(); --edits) {
    const auto at = static_cast<std::ptrdiff_t>(below(bytes.size()));
    const auto length = static_cast<std::ptrdiff_t>(
        1 + below(std::min<size_t>(16, bytes.size() - static_cast<size_t>(at))));
    const auto part =
        Bytes(bytes.begin() + at,
              bytes.begin() + std::min<std::ptrdiff_t>(at + length, std::ssize(bytes)));
    switch (below(5)) {
      case 0:
        bytes[static_cast<size_t>(at)] = static_cast<std::byte>(random());
        break;
      case 1:
        bytes.erase(bytes.begin() + at, bytes.begin() + at + std::ssize(part));
        break;
      case 2:
        bytes.insert(bytes.begin() + at, part.begin(), part.end());
        break;
      case 3:
        std::fill_n(bytes.begin() + at, std::ssize(part), std::byte{0xff});
        break;
      default:
        bytes.resize(static_cast<size_t>(at));
        break;
    }
  }
}

TEST_P(Readers, AcceptTheSeeds) {
  const auto seeds = GetParam().seeds();
  ASSERT_FALSE(seeds.empty());
  for (const auto& [name, bytes] : seeds) EXPECT_TRUE(accepts(GetParam(), bytes)) << name;
}

// What fuzzing found once (scripts/fuzz.sh), as small files: read or refused with a message.
TEST_P(Readers, SurviveTheCorpus) {
  const auto folder = fs::path(NSVQ_TESTS_DIR) / "corpus" / GetParam().name;
  if (!fs::exists(folder)) return;
  for (const auto& file : fs::directory_iterator(folder)) {
    EXPECT_NO_THROW(accepts(GetParam(), read_file(file.path()))) << file.path();
  }
}

/// Images and tars of every variant (tests/io/golden) that a target reads.
std::map<std::string, Bytes> golden_files(const std::string& target) {
  std::map<std::string, Bytes> files;
  const bool tar = target.starts_with("tar");
  const auto ending = target == "jpeg" ? ".jpg" : tar ? ".tar" : "." + target;
  const auto golden = fs::path(NSVQ_TESTS_DIR).parent_path() / "io/golden";
  for (const auto& file : fs::directory_iterator(golden / (tar ? "tars" : "images"))) {
    if (file.path().extension() == ending) {
      files[file.path().filename().string()] = read_file(file.path());
    }
  }
  return files;
}

// A short run of what scripts/fuzz.sh does for hours.
TEST_P(Readers, SurviveMutationsOfTheSeeds) {
  std::mt19937 random(1);
  int refused = 0;
  auto seeds = GetParam().seeds();
  seeds.merge(golden_files(GetParam().name));
  for (const auto& [name, seed] : seeds) {
    for (int round = 0; round < 300; ++round) {
      auto bytes = seed;
      mutate(bytes, random);
      if (GetParam().mend && round % 2 == 0) GetParam().mend(bytes);
      bool accepted = false;
      ASSERT_NO_THROW(accepted = accepts(GetParam(), bytes)) << name << ", round " << round;
      if (!accepted) ++refused;
    }
  }
  const std::string name = GetParam().name;
  if (name == "exif" || name == "run_log") return;  // they accept anything
  EXPECT_GT(refused, 0);
}

INSTANTIATE_TEST_SUITE_P(All, Readers, testing::ValuesIn(fuzz_targets()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace

}  // namespace nsvq
