// Which metrics a run is evaluated by.

#include <gtest/gtest.h>

#include "nsvq/io/files/file.h"
#include "nsvq/metrics/metric_set.h"
#include "nsvq/nn/features/inception.h"
#include "nsvq/recipe/loader_options.h"
#include "nsvq/tokenizer/evaluate.h"
#include "nsvq/tokenizer/open_model.h"
#include "tests/error_of.h"
#include "tests/train/run_traces.h"
#include "tests/train/tiny.h"
#include "tests/train/trainer_fixture.h"
#include "tests/weights_store.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

TEST_F(TrainerTest, EvaluatesByTheMetricsThatTheRecipeNames) {
  WeightsStore store;
  store.add_lpips("squeeze");
  auto config = tiny_config();
  config.data.size = 32;
  config.train.epochs = 2;
  config.train.metrics = {"ssim", "lpips-squeeze", "fd-squeezenet1_1", "entropy"};
  testing::internal::CaptureStderr();
  const auto evaluation = train(config, run_);
  const auto said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find("best PSNR"), std::string::npos);
  EXPECT_NE(said.find("weights      lpips-squeeze: official values, from a test\n"),
            std::string::npos)
      << said;
  const auto lines = lines_of_kind(run_, "eval");
  ASSERT_EQ(lines.size(), 2u);
  for (const auto& name : config.train.metrics) {
    EXPECT_EQ(lines.back().at(name).get<double>(), evaluation.at(name)) << name;
    EXPECT_NE(lines.front().at(name), lines.back().at(name)) << name;
  }
  EXPECT_FALSE(evaluation.contains("psnr"));
  EXPECT_NE(read_text(run_ / "report.html").find("LPIPS (squeeze)"), std::string::npos);

  // The run may go on with other metrics, and later evaluations do not depend on earlier ones.
  auto more = config;
  more.train.epochs = 3;
  more.train.metrics = {"psnr", "lpips-squeeze"};
  testing::internal::CaptureStderr();
  const auto resumed =
      Trainer(more, run_, make_single_group(), Start::resume).loop().train().evaluation;
  EXPECT_NE(testing::internal::GetCapturedStderr().find("best PSNR"), std::string::npos);
  const auto whole = train(more, folder_.path() / "whole");
  EXPECT_EQ(resumed, whole);
}

TEST_F(TrainerTest, TheValidationImagesAreDescribedOnce) {
  auto config = tiny_config();
  config.train.epochs = 2;
  train(config, run_);
  auto lines = lines_of_kind(run_, "validation");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].at("step"), 3) << "behind the first evaluation";
  EXPECT_EQ(lines[0].at("images"), 7);
  EXPECT_EQ(lines[0].at("codes"), 32);
  EXPECT_EQ(lines[0].at("tokens"), 7 * 8 * 8);

  Loader loader(open_validation_source(config.data), inference_loader_options(config, at::kCPU));
  loader.start(0);
  std::vector<torch::Tensor> batches;
  while (const auto batch = loader.next()) batches.push_back(batch->images);
  const auto images = at::cat(batches);
  MetricSet psnr({"psnr"}, {});
  psnr.add({images, images.mean({0, 2, 3}, /*keepdim=*/true).expand_as(images), {}});
  EXPECT_NEAR(lines[0].at("grey_psnr").get<double>(), psnr.values().at("psnr"), 0.02)
      << "but for the rounding of the colour";

  config.train.epochs = 3;
  Trainer(config, run_, make_single_group(), Start::resume).loop().train();
  lines = lines_of_kind(run_, "validation");
  EXPECT_EQ(lines.size(), 1u) << "a run that goes on knows them";
}

TEST_F(TrainerTest, ValidationImagesWithoutTokensAreDescribedWithoutCodes) {
  auto config = tiny_config_of("none");
  config.schedule.phases = {"stage1"};
  config.train.epochs = 1;
  train(config, run_);
  const auto lines = lines_of_kind(run_, "validation");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_FALSE(lines[0].contains("codes"));
  EXPECT_FALSE(lines[0].contains("tokens"));
  EXPECT_GT(lines[0].at("grey_psnr").get<double>(), 6);
}

TEST_F(TrainerTest, EvaluatesByFid) {
  WeightsStore store;
  store.add("inception", Inception());
  auto config = tiny_config();
  config.data.val = "builtin:dead-leaves?size=16&count=3&seed=1";
  config.train.epochs = 1;
  config.train.metrics = {"rfid"};
  testing::internal::CaptureStderr();
  const auto evaluation = train(config, run_);
  const auto said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("weights      inception: official values"), std::string::npos) << said;
  // The checkpoint's model, measured by itself.
  auto trained = load_model(run_).tokenizer;
  Loader images(open_validation_source(config.data), inference_loader_options(config, at::kCPU));
  MetricSet fid({"fid"}, {.conventions = {}, .codes = config.quantizer.codes, .device = at::kCPU});
  const double measured = evaluate(trained, images, at::kCPU, fid).at("fid");
  EXPECT_NEAR(evaluation.at("fid"), measured, 1e-3 * measured);
  EXPECT_EQ(lines_of_kind(run_, "eval").back().at("fid").get<double>(), evaluation.at("fid"));
}

TEST_F(TrainerTest, MetricsThatCannotBeMeasuredAreRefusedAtTheStart) {
  const WeightsStore store;
  const auto error = [&](std::vector<std::string> metrics) {
    auto config = tiny_config();
    config.train.metrics = std::move(metrics);
    return error_of([&] { train(config, run_); });
  };
  EXPECT_TRUE(error({"psnr", "simm"})
                  .starts_with("train.metrics: unknown metric 'simm'; did you mean 'ssim'?"));
  EXPECT_NE(error({"lpips"}).find("nsvq weights"), std::string::npos);
  EXPECT_NE(error({"fid"}).find("train.metrics: "), std::string::npos);
  EXPECT_FALSE(fs::exists(run_));
}

}  // namespace
}  // namespace nsvq
