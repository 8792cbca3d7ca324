// Codes that are refitted when the encoder freezes (schedule.refit).

#include <gtest/gtest.h>

#include "nsvq/core/random.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/nn/named_tensors.h"
#include "nsvq/quantizers/codebook.h"
#include "nsvq/quantizers/replacement/kmeans.h"
#include "nsvq/recipe/loader_options.h"
#include "tests/error_of.h"
#include "tests/train/run_traces.h"
#include "tests/train/tiny.h"
#include "tests/train/trainer_fixture.h"

namespace nsvq {
namespace {

/// Freezes after step 9; codes hardly move by gradients.
TokenizerConfig refit_config() {
  auto config = tiny_config();
  config.optimizer.scale.quantizer = 1e-6;
  config.train.epochs = 4;
  config.checkpoint.every_steps = 1;
  config.checkpoint.keep = 100;
  config.schedule.refit = "kmeans";
  return config;
}

TensorMap tensors_of(const std::filesystem::path& run, int64_t step, const std::string& file) {
  return read_safetensors(run / "checkpoints" / fmt::format("step-{}", step) / file).tensors;
}

TensorMap training_of(const std::filesystem::path& run, int64_t step) {
  return tensors_of(run, step, "training.safetensors");
}

/// Latents of the first two batches, 32 for each of the 32 codes.
torch::Tensor latents_of(const TokenizerConfig& config, const TensorMap& training) {
  const torch::NoGradGuard no_grad;
  Tokenizer model(config);
  load_tensors(*model, with_prefix(training, "model."), "test");
  ImageBatchSource batches(open_training_source(config.data),
                           training_loader_options(config, *make_single_group()));
  batches.start(0, 0, 0);
  std::vector<torch::Tensor> latents;
  for (int batch = 0; batch < 2; ++batch) {
    latents.push_back(flatten_latents(model->to_latents(batches.next()->front())));
  }
  return at::cat(latents);
}

TEST_F(TrainerTest, RefittedCodesAreClustersOfTheFrozenEncodersLatents) {
  const auto config = refit_config();
  train(config, run_);
  const auto frozen = training_of(run_, 9);
  const auto latents = latents_of(config, frozen);
  ASSERT_EQ(latents.size(0), 32 * 32);
  const auto expected =
      kmeans(latents, 32, kInitialIterations, seed_for(config.seed, Draw::codebook, 9));
  const auto found = training_of(run_, 10).at("model.quantizer.codebook");
  EXPECT_TRUE(at::allclose(found, expected, 1e-5, 1e-6)) << (found - expected).abs().max();
  EXPECT_FALSE(at::allclose(frozen.at("model.quantizer.codebook"), expected, 1e-2, 1e-3));
  const auto average = tensors_of(run_, 10, "model.safetensors").at("quantizer.codebook");
  EXPECT_TRUE(at::allclose(average, expected, 1e-5, 1e-6)) << "the average begins there too";
}

/// Until the freeze nothing differs; then the codes do.
TEST_F(TrainerTest, RefitsChangeNothingBeforeTheFreeze) {
  auto config = refit_config();
  train(config, run_);
  config.schedule.refit = "none";
  train(config, folder_ / "other");
  EXPECT_EQ(first_difference(training_of(run_, 9), training_of(folder_ / "other", 9)), "");
  EXPECT_EQ(first_difference(tensors_of(run_, 9, "model.safetensors"),
                             tensors_of(folder_ / "other", 9, "model.safetensors")),
            "");
  EXPECT_FALSE(at::equal(training_of(run_, 10).at("model.quantizer.codebook"),
                         training_of(folder_ / "other", 10).at("model.quantizer.codebook")));
}

TEST_F(TrainerTest, RefitsOfRunningMeansStartTheirSumsAnew) {
  auto config = refit_config();
  config.quantizer.type = "ema";
  train(config, run_);
  const auto latents = latents_of(config, training_of(run_, 9));
  const auto codes =
      kmeans(latents, 32, kInitialIterations, seed_for(config.seed, Draw::codebook, 9));
  const auto after = training_of(run_, 10);
  // A step moves a mean by 1 % of a batch's sums.
  const auto moved = (after.at("model.quantizer.codebook") - codes).norm() / codes.norm();
  EXPECT_LT(moved.item<double>(), 0.5);
  EXPECT_LT((after.at("model.quantizer.counts").mean() - 1).abs().item<double>(), 0.5);
}

TEST_F(TrainerTest, RefitsOfAnotherModelsCodesComeBeforeTheFirstStep) {
  auto config = refit_config();
  config.schedule.refit = "none";
  config.train.steps = 2;
  train(config, run_);
  config.train.init_from = run_.string();
  config.quantizer.init = "model";
  config.schedule.phases = {"stage2"};
  config.schedule.refit = "kmeans";
  config.train.steps = 1;
  const auto next = folder_ / "next";
  train(config, next);
  const auto before = tensors_of(run_, 2, "model.safetensors");
  const auto after = tensors_of(next, 1, "model.safetensors");
  for (const auto& [name, tensor] : before) {
    EXPECT_EQ(at::equal(tensor, after.at(name)), name.starts_with("encoder.")) << name;
  }
  const auto expected = kmeans(latents_of(config, training_of(next, 1)), 32, kInitialIterations,
                               seed_for(config.seed, Draw::codebook, 0));
  EXPECT_TRUE(at::allclose(after.at("quantizer.codebook"), expected, 1e-5, 1e-6));
}

TEST_F(TrainerTest, RefitsOfCodesThatAreNotListedAreRefused) {
  for (const std::string type : {"fsq", "simvq", "none"}) {
    auto config = tiny_config_of(type);
    config.schedule.refit = "kmeans";
    EXPECT_EQ(error_of([&] { train(config, folder_ / type); }),
              "schedule.refit is kmeans, but quantizer " + type +
                  " has no codebook to fit; set schedule.refit=none");
  }
}

}  // namespace
}  // namespace nsvq
