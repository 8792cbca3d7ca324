// Runs that go on from another model: its decoder alone, all of it, at another size.

#include <gtest/gtest.h>

#include "nsvq/io/files/file.h"
#include "nsvq/runs/config.h"
#include "nsvq/tokenizer/open_model.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/train/every_quantizer.h"
#include "tests/train/run_traces.h"
#include "tests/train/trainer_fixture.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

class Finetune : public testing::Test {
 protected:
  /// Trains some steps with one of the quantizers.
  TokenizerConfig trained(const std::string& type) {
    auto config = tiny_config_with_files(type, folder_.path());
    config.train.steps = 3;
    config.schedule.phases = {"stage1"};
    train(config, run_);
    return config;
  }
  /// Settings that train the decoder of `run_` alone.
  TokenizerConfig decoder_of(TokenizerConfig config) const {
    config.train.init_from = run_.string();
    config.quantizer.init = "model";
    config.quantizer.of<FeaturesConfig>().file = "/no/such/file";
    config.schedule.phases = {"decoder"};
    config.optimizer.lr = 0.01;
    config.seed = 7;
    return config;
  }

  TemporaryFolder folder_;
  fs::path run_ = folder_ / "run", next_ = folder_ / "next";
};

class FinetuneEveryQuantizer : public Finetune, public testing::WithParamInterface<std::string> {};

torch::Tensor some_images(int64_t size) {
  torch::manual_seed(2);
  return at::rand({5, 3, size, size}) * 2 - 1;
}

TEST_P(FinetuneEveryQuantizer, TheDecoderMovesAndTokensStay) {
  const auto config = decoder_of(trained(GetParam()));
  testing::internal::CaptureStderr();
  train(config, next_);
  expect_contains(testing::internal::GetCapturedStderr(),
                  {"encoder and codes are frozen: images keep their tokens"});
  auto from = load_model(run_), to = load_model(next_);
  const auto before = named_tensors(*from.tokenizer), after = named_tensors(*to.tokenizer);
  ASSERT_EQ(before.size(), after.size());
  for (const auto& [name, tensor] : before) {
    EXPECT_EQ(at::equal(tensor, after.at(name)), !name.starts_with("decoder.")) << name;
  }
  if (from.tokenizer->quantizer->codes() == 0) return;
  const auto images = some_images(16);
  const auto tokens = from.tokenizer->encode(images);
  EXPECT_TRUE(at::equal(tokens, to.tokenizer->encode(images)));
  EXPECT_FALSE(at::equal(from.tokenizer->decode(tokens), to.tokenizer->decode(tokens)));
  for (const auto& line : lines_of_kind(next_, "step")) {
    EXPECT_EQ(line.at("vq"), 0);
    EXPECT_FALSE(line.contains("embedding"));
  }
}

std::vector<std::string> all_quantizers() {
  std::vector<std::string> names;
  for (const auto& kind : quantizer_kinds()) {
    if (kind.untrained.empty()) names.push_back(kind.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Registry, FinetuneEveryQuantizer, testing::ValuesIn(all_quantizers()),
                         [](const auto& info) { return info.param; });

TEST_F(Finetune, AllOfAModelIsTheStart) {
  auto config = trained("ema");
  config.train.init_from = run_.string();
  config.quantizer.init = "model";
  config.optimizer.lr = 1e-30;
  config.train.steps = 1;
  train(config, next_);
  auto from = load_model(run_), to = load_model(next_);
  const auto after = named_tensors(*to.tokenizer);
  for (const auto& [name, tensor] : named_tensors(*from.tokenizer)) {
    if (name.starts_with("quantizer.")) continue;  // a step moves running means
    EXPECT_TRUE(at::allclose(tensor, after.at(name), 1e-6, 1e-8)) << name;
  }
  const auto moved = after.at("quantizer.codebook") - from.tokenizer->quantizer->codebook();
  EXPECT_LT(moved.norm().item<double>(),
            0.1 * after.at("quantizer.codebook").norm().item<double>());
}

TEST_F(Finetune, TheSizeOfImagesMayBeAnother) {
  auto config = decoder_of(trained("nsvq"));
  config.data.size = 32;
  config.data.train = "builtin:dead-leaves?size=32&count=8";
  config.data.val = "builtin:dead-leaves?size=32&count=3&seed=1";
  config.adversarial.weight = 0.1;
  config.adversarial.width = 4;
  config.adversarial.layers = 2;
  config.train.steps = 2;
  train(config, next_);
  auto from = load_model(run_), to = load_model(next_);
  EXPECT_EQ(to.config.data.size, 32);
  for (const int64_t size : {16, 32, 20}) {
    EXPECT_TRUE(at::equal(from.tokenizer->encode(some_images(size)),
                          to.tokenizer->encode(some_images(size))));
  }
}

TEST_F(Finetune, GoesOnAsIfItHadNotBeenInterrupted) {
  auto config = decoder_of(trained("ema"));
  config.train.steps = 6;  // two epochs
  train(config, next_);
  config.train.steps = 3;
  train(config, folder_ / "halves");
  config.train.steps = 6;
  Trainer(config, folder_ / "halves", make_single_group(), Start::resume).loop().train();
  EXPECT_EQ(first_difference(named_tensors(*load_model(next_).tokenizer),
                             named_tensors(*load_model(folder_ / "halves").tokenizer)),
            "");
}

TEST_F(Finetune, OtherQuantizersAreRefusedByTheirSetting) {
  const auto config = decoder_of(trained("cvq"));
  const auto refusal = [&](const auto& change) {
    auto other = config;
    change(other.quantizer);
    return error_of([&] { train(other, next_); });
  };
  expect_contains(refusal([](auto& one) { one.type = "vq"; }),
                  {"train.init_from: ", " has quantizer.type cvq, and the recipe vq"});
  expect_contains(refusal([](auto& one) { one.codes = 33; }), {"quantizer.codes 32"});
  expect_contains(refusal([](auto& one) { one.normalise = true; }), {"quantizer.normalise false"});
  expect_contains(refusal([](auto& one) { one.template of<CvqConfig>().distance = "l2"; }),
                  {"quantizer.cvq.distance cosine"});
  EXPECT_FALSE(fs::exists(next_));
}

TEST_F(Finetune, SettingsThatNobodySetsAreTheModels) {
  auto stored = tiny_config_of("affine");
  stored.quantizer.beta = 0.5;
  stored.train.steps = 1;
  stored.schedule.phases = {"stage1"};
  train(stored, run_);
  const auto recipe = (folder_ / "a.yaml").string();
  const auto load = [&](const std::vector<std::string>& overrides) {
    return load_recipe_or_run(recipe, overrides);
  };
  write_text(recipe, "train.init_from: " + run_.string() + "\nschedule.phases: [decoder]\n");
  const auto decoder = load({});
  EXPECT_EQ(decoder.model.multipliers, stored.model.multipliers);
  EXPECT_EQ(decoder.model.latent_dim, 8);
  EXPECT_EQ(decoder.quantizer.type, "affine");
  EXPECT_EQ(decoder.quantizer.codes, 32);
  EXPECT_EQ(decoder.quantizer.beta, 0.5) << "not the default of its kind";
  EXPECT_EQ(decoder.quantizer.init, "model");
  EXPECT_EQ(decoder.data.size, 16);
  EXPECT_EQ(decoder.optimizer.lr, TokenizerConfig().optimizer.lr);
  EXPECT_EQ(load({"quantizer.init=model", "schedule.phases=[stage1]"}).quantizer.type, "affine");
  EXPECT_EQ(load({"data.size=32"}).data.size, 32);
  EXPECT_EQ(load({"model.width=16"}).model.width, 16) << "which training refuses";

  const auto networks = load({"schedule.phases=[stage1]"});
  EXPECT_EQ(networks.model.width, 8);
  EXPECT_EQ(networks.quantizer.type, "nsvq");
  EXPECT_EQ(networks.quantizer.init, "kmeans");
  EXPECT_EQ(load({"train.init_from=/no/such/run"}).model.width, ModelConfig().width);
}

TEST(Finetuning, AQuantizerOfNoModelIsRefused) {
  EXPECT_EQ(error_of([] { load_config("", {"quantizer.init=model"}); }),
            "quantizer.init is model, but train.init_from names no model; set it, or another "
            "quantizer.init");
  expect_contains(error_of([] { load_config("", {"schedule.phases=[decoder]"}); }),
                  {"schedule.phases is [decoder]", "train.init_from"});
}

/// Restarts are at latents as they are compared with codes.
TEST_F(TrainerTest, NormalisedCodesAreReplacedByNormalisedLatents) {
  auto config = tiny_config_of("jukebox");
  config.quantizer.normalise = true;
  config.quantizer.init = "data";
  config.replacement.threshold = 1e9;  // each code, after each step
  config.schedule.phases = {"stage1"};
  config.train.steps = 2;
  train(config, run_);
  const auto lengths = load_model(run_).tokenizer->quantizer->codebook().norm(2, 1);
  EXPECT_TRUE(at::allclose(lengths, at::ones_like(lengths), 1e-5, 0)) << lengths;
}

}  // namespace
}  // namespace nsvq
