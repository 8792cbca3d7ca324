#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "tests/bench/run.h"
#include "tests/generation/tiny_generation.h"

namespace nsvq {
namespace {

TEST(BenchGeneration, TimesAStepAndSamplingOfEachFamily) {
  const TemporaryFolder folder;
  const auto recipe = (folder / "tiny.yaml").string(), out = (folder / "figures.json").string();
  write_text(recipe, to_yaml(tiny_generation_config("nowhere")));
  for (const std::string family : {"masked", "ar", "rar"}) {
    const auto result =
        run_bench({"generation", recipe, "family=" + family, "classes=3", "--codes", "64", "--side",
                   "4", "--samples", "3", "--rounds", "1", "--json", out, "sampling.guidance=2"});
    ASSERT_EQ(result.code, 0) << result.error;
    expect_contains(result.out, {family, "4x4 tokens of 64 codes", "training, batch 8",
                                 "sampling 3 images, 16 steps, guidance 2"});
    const auto json = nlohmann::json::parse(read_text(out));
    EXPECT_GT(json.at("training").at("images_per_second").get<double>(), 0);
    EXPECT_GT(json.at("sampling").at("images_per_second").get<double>(), 0);
    std::filesystem::remove(out);
  }
}

TEST(BenchGeneration, RefusesWhatItCannotTime) {
  const TemporaryFolder folder;
  const auto recipe = (folder / "tiny.yaml").string();
  write_text(recipe, to_yaml(tiny_generation_config("nowhere")));
  expect_failure(run_bench({"generation", recipe, "sampling.guidance=2"}), 2,
                 {"sampling.guidance"});
  expect_failure(run_bench({"generation", recipe, "generator.heads=5", "family=ar"}), 2,
                 {"generator.heads"});
  expect_failure(run_bench({"generation", "none.yaml"}), 2, {"none.yaml"});
}

}  // namespace
}  // namespace nsvq
