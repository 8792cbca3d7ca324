#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "tests/bench/run.h"
#include "tests/cli/model_file.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

TEST(BenchStepFlops, StandBesideTheTime) {
  const TemporaryFolder folder;
  const auto recipe = (folder / "tiny.yaml").string();
  write_text(recipe, to_yaml(tiny_config()));
  const auto result = run_bench(
      {"step", recipe, "--rounds", "1", "--step-only", "--peak-tflops", "0.1", "--json", "-"});
  ASSERT_EQ(result.code, 0) << result.error;
  expect_contains(result.error, {"GFLOP a step", "% of 0.1"});
  const auto json = nlohmann::json::parse(result.out);
  // The encoder's first convolution alone: 8 images of 16x16, 3 to 8 channels, 3x3, forward and the
  // gradients of input and weight.
  EXPECT_GT(json.at("convolution_flop").get<double>(), 3 * 2. * 8 * 16 * 16 * 8 * 27);
  EXPECT_GT(json.at("share_of_peak").get<double>(), 0);
}

TEST(BenchTokenizeFlops, StandBesideTheTime) {
  const TemporaryFolder folder;
  const auto model = (folder / "model.safetensors").string();
  write_model_file(model, tiny_config());
  const auto result = run_bench({"tokenize", model, "--device", "cpu", "--rounds", "1",
                                 "--peak-tflops", "0.1", "--json", "-"});
  ASSERT_EQ(result.code, 0) << result.error;
  expect_contains(result.error, {"GFLOP an image", "% of 0.1"});
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_GT(json.at("convolution_flop").get<double>(), 2. * 8 * 16 * 16 * 8 * 27);
  EXPECT_GT(json.at("share_of_peak").get<double>(), 0);
  expect_failure(run_bench({"tokenize", model, "--device", "cpu", "--kernels", "3"}), 2,
                 {"--kernels", "GPU"});
}

}  // namespace
}  // namespace nsvq
