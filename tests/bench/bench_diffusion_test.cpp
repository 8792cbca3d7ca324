#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "tests/bench/run.h"
#include "tests/diffusion/tiny_diffusion.h"

namespace nsvq {
namespace {

TEST(BenchDiffusion, TimesAStepAndSampling) {
  const TemporaryFolder folder;
  const auto recipe = (folder / "tiny.yaml").string(), out = (folder / "figures.json").string();
  write_text(recipe, to_yaml(tiny_diffusion_config("nowhere")));
  const auto result = run_bench({"diffusion", recipe, "--channels", "4", "--stride", "4",
                                 "--samples", "3", "--rounds", "1", "--json", out});
  ASSERT_EQ(result.code, 0) << result.error;
  expect_contains(result.out, {"45404 parameters", "training, batch 8", "sampling 3 latents"});
  const auto json = nlohmann::json::parse(read_text(out));
  EXPECT_EQ(json.at("parameters"), 45404);
  EXPECT_GT(json.at("training").at("images_per_second").get<double>(), 0);
  EXPECT_GT(json.at("sampling").at("images_per_second").get<double>(), 0);
  // The first convolution alone: 8 images of 4x4, 4 to 8 channels, 3x3, and its weights' gradient.
  EXPECT_GT(json.at("training").at("convolution_flop").get<double>(), 2 * 2. * 8 * 16 * 8 * 36);
}

TEST(BenchDiffusion, RefusesWhatItCannotTime) {
  const TemporaryFolder folder;
  const auto recipe = (folder / "tiny.yaml").string();
  auto config = tiny_diffusion_config("nowhere");
  config.classes = 3;
  write_text(recipe, to_yaml(config));
  expect_failure(run_bench({"diffusion", recipe}), 2, {"diffusion.classes"});
  expect_failure(run_bench({"diffusion", recipe, "diffusion.classes=0", "--stride", "16"}), 2,
                 {"data.size 16 is not a multiple of 32"});
  expect_failure(run_bench({"diffusion", "none.yaml"}), 2, {"none.yaml"});
}

}  // namespace
}  // namespace nsvq
