#include "nsvq/runs/checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/tokenizer/model_file.h"
#include "nsvq/tokenizer/open_model.h"
#include "tests/error_of.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(0);
    model_ = Tokenizer(config_);
    state_.step = 12;
    state_.epoch = 3;
    state_.batch = 1;
    state_.finished = true;
    state_.evaluation = {{"psnr", 1. / 3}, {"ssim", NAN}};
    state_.task = R"({"phase":1})";
    save_checkpoint(
        checkpoint_,
        {state_, {}, model_contents(named_tensors(*model_), config_), {{"usage", at::ones({4})}}});
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
  TokenizerConfig config_ = tiny_config();
  Tokenizer model_{nullptr};
  RunState state_;
};

TEST_F(CheckpointTest, AStateThatIsNoneIsOneLine) {
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  for (const std::string& text :
       {deep, "{\"format\":" + std::string(30, '[') + std::string(30, ']') + "}",
        "{\"format\":\"" + std::string(1 << 20, 'x') + "\"}", std::string("{}")}) {
    const auto error = error_of([&] { state_from_json(text, "state.json"); });
    EXPECT_EQ(error.find("state.json: "), 0u) << error;
    EXPECT_LT(error.size(), 400u);
  }
  auto text = read_text(checkpoint_ / "state.json");
  text.replace(text.find("\"step\": 12"), 10, "\"step\": 12.5");
  EXPECT_EQ(error_of([&] { state_from_json(text, "state.json"); }),
            "state.json: step is 12.5, not a whole number from 0 to 2000000000000");
}

TEST_F(CheckpointTest, TheModelComesBackFromRunCheckpointOrFile) {
  const auto images = at::rand({2, 3, 16, 16}) * 2 - 1;
  const auto indices = model_->encode(images);
  for (const auto& path : {run_, checkpoint_, checkpoint_ / "model.safetensors"}) {
    auto loaded = load_model(path);
    EXPECT_EQ(to_yaml(loaded.config), to_yaml(config_));
    EXPECT_TRUE(at::equal(loaded.tokenizer->encode(images), indices));
    EXPECT_TRUE(at::equal(loaded.tokenizer->decode(indices), model_->decode(indices)));
  }
  const auto state = load_run_state(checkpoint_);
  EXPECT_EQ(state.step, 12);
  EXPECT_EQ(state.batch, 1);
  EXPECT_TRUE(state.finished);
  EXPECT_EQ(state.evaluation.at("psnr"), 1. / 3);
  EXPECT_TRUE(std::isnan(state.evaluation.at("ssim")));
  EXPECT_EQ(state.task, state_.task);
}

TEST_F(CheckpointTest, TheNewestIsByNumberAndOthersFoldersAreIgnored) {
  save_checkpoint(run_ / "checkpoints/step-9",
                  {state_, {}, model_contents(named_tensors(*model_), config_), {}});
  std::filesystem::create_directories(run_ / "checkpoints/.step-99.tmp-1-1");
  EXPECT_EQ(open_model_file(run_).path, checkpoint_ / "model.safetensors");
}

TEST_F(CheckpointTest, WhatIsWrongIsNamed) {
  EXPECT_NE(error_of_loading(folder_.path() / "none").find("no such run"), std::string::npos);
  EXPECT_NE(error_of_loading(folder_.path()).find("a folder of runs"), std::string::npos);
  std::filesystem::create_directory(folder_ / "empty");
  EXPECT_NE(error_of_loading(folder_ / "empty").find("neither"), std::string::npos);

  auto file = read_safetensors(checkpoint_ / "model.safetensors");
  file.metadata.erase("nsvq.contents_sha256");  // as files of earlier versions
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
  for (const auto* text : {"", "{", "{}", R"({"format": 99})", R"({"format": 3, "step": "x"})"}) {
    write_text(checkpoint_ / "state.json", text);
    EXPECT_THROW(load_run_state(checkpoint_), UserError) << text;
  }
}

}  // namespace
}  // namespace nsvq
