#include "nsvq/train/checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/file.h"
#include "nsvq/io/safetensors.h"
#include "nsvq/tokenizer/recipe.h"
#include "nsvq/train/ema.h"
#include "nsvq/train/setup.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(0);
    model_ = Tokenizer(config_);
    at_ = {.step = 12,
           .epoch = 3,
           .batch = 1,
           .phase = 1,
           .phase_start = 2,
           .finished = true,
           .commitment = {0.5, NAN},
           .health = {{0.5, NAN, 3}},
           .alarms = {"one_hot"},
           .evaluation = {{"psnr", 1. / 3}},
           .best_psnr = 0.1,
           .best_epoch = 2};
    save_checkpoint(checkpoint_,
                    {config_, at_, {}, named_tensors(*model_), {{"usage", at::ones({4})}}});
  }
  std::string error_of_loading(const std::filesystem::path& path) {
    try {
      load_model(path);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }

  TemporaryFolder folder_;
  std::filesystem::path run_ = folder_.path() / "run", checkpoint_ = run_ / "checkpoints/step-12";
  Config config_ = tiny_config();
  Tokenizer model_{nullptr};
  Progression at_;
};

TEST_F(CheckpointTest, TheModelComesBackFromRunCheckpointOrFile) {
  const auto images = at::rand({2, 3, 16, 16}) * 2 - 1;
  const auto indices = model_->encode(images);
  for (const auto& path : {run_, checkpoint_, checkpoint_ / "model.safetensors"}) {
    auto loaded = load_model(path);
    EXPECT_EQ(to_yaml(loaded.config), to_yaml(config_));
    EXPECT_TRUE(at::equal(loaded.tokenizer->encode(images), indices));
    EXPECT_TRUE(at::equal(loaded.tokenizer->decode(indices), model_->decode(indices)));
  }
  const auto at = load_progression(checkpoint_);
  EXPECT_EQ(at.step, 12);
  EXPECT_EQ(at.batch, 1);
  EXPECT_TRUE(at.finished);
  EXPECT_EQ(at.commitment[0], 0.5);
  EXPECT_TRUE(std::isnan(at.commitment[1]));
  EXPECT_EQ(at.health[0].neighbours, 3);
  EXPECT_TRUE(std::isnan(at.health[0].latent_norm));
  EXPECT_EQ(at.alarms, at_.alarms);
  EXPECT_EQ(at.evaluation, at_.evaluation);
  EXPECT_EQ(at.best_psnr, 0.1);
}

TEST_F(CheckpointTest, TheNewestIsByNumberAndOthersFoldersAreIgnored) {
  save_checkpoint(run_ / "checkpoints/step-9", {config_, at_, {}, named_tensors(*model_), {}});
  std::filesystem::create_directories(run_ / "checkpoints/.step-99.tmp-1-1");
  EXPECT_EQ(find_model(run_), checkpoint_ / "model.safetensors");
}

TEST_F(CheckpointTest, WhatIsWrongIsNamed) {
  EXPECT_NE(error_of_loading(folder_.path() / "none").find("no such run"), std::string::npos);
  EXPECT_NE(error_of_loading(folder_.path()).find("neither"), std::string::npos);

  auto file = read_safetensors(checkpoint_ / "model.safetensors");
  const auto path = folder_.path() / "model.safetensors";
  auto missing = file;
  missing.tensors.erase("quantizer.codebook");
  write_safetensors(path, missing);
  EXPECT_NE(error_of_loading(path).find("'quantizer.codebook' is missing"), std::string::npos);
  auto extra = file;
  extra.tensors["encoder.extra"] = at::ones({1});
  write_safetensors(path, extra);
  EXPECT_NE(error_of_loading(path).find("'encoder.extra'"), std::string::npos);
  auto reshaped = file;
  reshaped.tensors["quantizer.codebook"] = at::ones({3, 8});
  write_safetensors(path, reshaped);
  EXPECT_NE(error_of_loading(path).find("[3, 8]"), std::string::npos);
  auto foreign = file;
  foreign.metadata.clear();
  write_safetensors(path, foreign);
  EXPECT_NE(error_of_loading(path).find("no configuration"), std::string::npos);
  auto broken = file;
  broken.metadata["nsvq.config"] = "train: [";
  write_safetensors(path, broken);
  EXPECT_NE(error_of_loading(path), "");
  write_text(path, "not a model");
  EXPECT_NE(error_of_loading(path), "");
}

TEST_F(CheckpointTest, ADamagedStateIsNamed) {
  for (const auto* text : {"", "{", "{}", R"({"format": 99})", R"({"format": 2, "step": "x"})"}) {
    write_text(checkpoint_ / "state.json", text);
    EXPECT_THROW(load_progression(checkpoint_), UserError) << text;
  }
}

TEST(EmaTest, AveragesAndCopies) {
  auto config = tiny_config();
  config.optimizer.ema_decay = 0.75;
  torch::manual_seed(0);
  Tokenizer model(config);
  Ema ema(config, model);
  const torch::NoGradGuard no_grad;
  auto codebook = model->quantizer->codebook();
  const auto before = codebook.clone();
  codebook.add_(1);
  Adam optimizer(named_parameters(*model), config.optimizer, ema.parameters());
  optimizer.step(at::ones({}, at::kBool));
  EXPECT_TRUE(at::equal(ema.average()->quantizer->codebook(), before)) << "of a bad step";
  optimizer.step();
  EXPECT_TRUE(at::allclose(ema.average()->quantizer->codebook(), before + 0.25));
  ema.copy_codes(at::arange(model->quantizer->codes()).eq(2));
  EXPECT_TRUE(at::equal(ema.average()->quantizer->codebook()[2], codebook[2]));
  EXPECT_TRUE(at::allclose(ema.average()->quantizer->codebook()[3], before[3] + 0.25));
  ema.copy_all();
  EXPECT_TRUE(at::equal(ema.average()->quantizer->codebook(), codebook));
}

}  // namespace
}  // namespace nsvq
