// A model without tokens (quantizer.type: none) in every command that takes a model.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "tests/cli/model_file.h"
#include "tests/cli/run.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// The last line of a kind in a run's metrics.jsonl.
json last_line(const fs::path& run, const std::string& kind) {
  json last;
  std::istringstream lines(read_text(run / "metrics.jsonl"));
  for (std::string text; std::getline(lines, text);) {
    const auto line = json::parse(text);
    if (line.at("kind") == kind) last = line;
  }
  return last;
}

class Continuous : public testing::Test {
 protected:
  void SetUp() override {
    auto config = tiny_config_of("none");
    config.train.epochs = 2;
    write_text(recipe_, to_yaml(config));
  }
  std::string train() {
    const auto trained = run({"train", recipe_, "--run", run_});
    EXPECT_EQ(trained.code, 0) << trained.error;
    return trained.out + trained.error;
  }

  TemporaryFolder folder_;
  std::string recipe_ = folder_ / "none.yaml", run_ = folder_ / "run";
  std::string data_ = tiny_config().data.val.text();
};

TEST_F(Continuous, TrainsWithoutFiguresOfCodes) {
  const auto all = train();
  expect_contains(all, {"a continuous autoencoder", "psnr"});
  const auto log = all.substr(all.find("phase stage1"));  // behind the settings
  for (const auto* word : {"codes used", "utilisation", "perplexity", "replaced", "nan"}) {
    EXPECT_EQ(log.find(word), std::string::npos) << word << " in " << log;
  }
  for (const auto* kind : {"step", "epoch", "eval", "drift"}) {
    const auto line = last_line(run_, kind);
    ASSERT_TRUE(line.is_object()) << kind;
    for (const auto& [key, value] : line.items()) EXPECT_FALSE(value.is_null()) << kind << key;
    for (const auto* key :
         {"utilisation", "perplexity", "replaced", "churn", "quantization_error", "neighbours"}) {
      EXPECT_FALSE(line.contains(key)) << kind << " " << key;
    }
  }
  EXPECT_TRUE(last_line(run_, "drift").contains("drift"));
  EXPECT_EQ(last_line(run_, "step").at("vq"), 0);
  const auto report = read_text(fs::path(run_) / "report.html");
  EXPECT_NE(report.find(":\"Encoder drift\""), std::string::npos);
  EXPECT_NE(report.find("a continuous autoencoder without tokens"), std::string::npos);
  for (const auto* title : {"Codebook", "Assignment churn", "Codes replaced"}) {
    EXPECT_EQ(report.find(fmt::format(":\"{}\"", title)), std::string::npos) << title;
  }
}

TEST_F(Continuous, EvaluatesReconstructsAndCompares) {
  train();
  const std::string figures = folder_ / "figures.json", grid = folder_ / "grid.png";
  const auto evaluated = run({"eval", run_, "--data", data_, "--json", figures});
  ASSERT_EQ(evaluated.code, 0) << evaluated.error;
  const auto values = json::parse(read_text(figures));
  EXPECT_NEAR(values.at("psnr"), last_line(run_, "eval").at("psnr").get<double>(), 1e-3);
  EXPECT_FALSE(values.contains("utilisation"));
  expect_failure(run({"eval", run_, "--data", data_, "--metrics", "psnr,utilisation"}), 2,
                 {"utilisation", "there are none"});
  EXPECT_EQ(run({"reconstruct", run_, "--data", data_, "--out", grid}).code, 0);
  EXPECT_EQ(
      run({"reconstruct", run_, "--data", data_, "--out", folder_ / "padded", "--fit", "pad"}).code,
      0);
  const std::string other = folder_ / "vq.safetensors";
  write_model_file(other, tiny_config());
  const auto compared = run({"compare", run_, other, "--data", data_});
  ASSERT_EQ(compared.code, 0) << compared.error;
  expect_contains(compared.out, {"psnr", "utilisation             -"});
  EXPECT_EQ(run({"info", run_}).code, 0);
  EXPECT_EQ(run({"export", run_, "--out", folder_ / "exported.safetensors"}).code, 0);
  EXPECT_EQ(run({"eval", folder_ / "exported.safetensors", "--data", data_}).code, 0);
}

TEST_F(Continuous, WhatNeedsTokensGetsOneLine) {
  const std::string model = folder_ / "model.safetensors";
  write_model_file(model, tiny_config_of("none"));
  const std::vector<std::string> words = {model, "quantizer.type is none", "without tokens"};
  expect_failure(run({"tokenize", model, "--data", data_, "--out", folder_ / "tokens"}), 2, words);
  EXPECT_FALSE(fs::exists(folder_ / "tokens"));
  expect_failure(run({"detokenize", model, "--tokens", "t", "--out", folder_ / "o"}), 2, words);
  const std::string codes = folder_ / "codes.safetensors";
  expect_failure(run({"codebook", "kmeans", model, "--data", data_, "--out", codes}), 2, words);
  expect_failure(run({"bench", "tokenize", model}), 2, words);
  const std::string chart = folder_ / "use.csv";
  expect_failure(run({"eval", model, "--data", data_, "--histogram", chart}), 2, words);
}

TEST_F(Continuous, SettingsThatNeedCodesGetOneLine) {
  const auto refusal = [&](const std::string& setting, const std::vector<std::string>& words) {
    expect_failure(run({"train", recipe_, setting, "--run", run_}), 2, words);
  };
  refusal("quantizer.rotation=true", {"quantizer.rotation", "none"});
  refusal("replacement.policy=copy", {"replacement.policy", "none"});
  expect_failure(run({"train", recipe_, "schedule.phases=[stage1, stage2]",
                      "schedule.freeze=plateau", "--run", run_}),
                 2, {"schedule.freeze", "commitment"});
}

}  // namespace
}  // namespace nsvq
