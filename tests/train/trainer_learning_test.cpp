// That training learns something, with every quantizer.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "nsvq/io/formats/safetensors.h"
#include "tests/train/every_quantizer.h"
#include "tests/train/run_traces.h"
#include "tests/train/tiny.h"
#include "tests/train/trainer_fixture.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

/// Two epochs of three steps: images get better through several codes, the encoder has gradients,
/// and everything of the quantizer that Adam moves has moved.
void expect_learned(const fs::path& run) {
  const auto evals = lines_of_kind(run, "eval"), steps = lines_of_kind(run, "step");
  ASSERT_EQ(evals.size(), 2u);
  ASSERT_EQ(steps.size(), 6u);
  EXPECT_GT(evals[1].at("psnr").get<double>(), evals[0].at("psnr").get<double>() + 0.2);
  if (evals[1].contains("perplexity")) EXPECT_GT(evals[1].at("perplexity"), 1.2);
  double l1 = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_GT(steps[i].at("gradient_norm_encoder"), 1e-4) << i;
    l1 += (i < 3 ? -1 : 1) * steps[i].at("l1").get<double>();
  }
  EXPECT_LT(l1, 0) << "the second epoch's less the first's";

  const auto state = [&](const char* step) {
    return read_safetensors(run / "checkpoints" / step / "training.safetensors").tensors;
  };
  const auto before = state("step-3"), after = state("step-6");
  for (const auto& [name, moment] : after) {
    if (!name.starts_with("adam.quantizer.") || !name.ends_with(".moment1")) continue;
    const auto weight = "model" + name.substr(4, name.size() - 4 - std::strlen(".moment1"));
    EXPECT_FALSE(at::equal(before.at(weight), after.at(weight))) << weight;
  }
}

/// Whether a quantizer starts from other codes than with `before`: some have no codebook to
/// initialise, or one way to.
bool starts_differently(const TokenizerConfig& config, const TokenizerConfig& before) {
  const auto made = [](const TokenizerConfig& one) {
    torch::manual_seed(1);
    return make_quantizer(one.quantizer, one.model.latent_dim);
  };
  const auto a = made(config), b = made(before);
  if (a->wants_data() || b->wants_data()) return true;
  const auto tensors = named_tensors(*a);
  return std::ranges::any_of(named_tensors(*b), [&](const auto& named) {
    return !at::equal(named.second, tensors.at(named.first));
  });
}

TEST_F(TrainerTest, EveryQuantizerAndInitialisationTrains) {
  for (const auto& kind : quantizer_kinds()) {
    if (!kind.untrained.empty()) continue;
    std::optional<TokenizerConfig> before;
    for (const auto* init : {"gaussian", "uniform", "normal", "data", "kmeans"}) {
      SCOPED_TRACE(kind.name + " from " + init);
      auto config = tiny_config_with_files(kind.name, folder_.path());
      config.quantizer.init = init;
      config.optimizer.lr = 3e-3;
      config.train.epochs = 2;
      config.train.eval_every = 1;
      if (before && !starts_differently(config, *before)) continue;
      before = config;
      const auto run = folder_.path() / (kind.name + init);
      train(config, run);
      expect_learned(run);
    }
  }
}

TEST_F(TrainerTest, StreamingAndPlainOperatorsGiveOneCurve) {
  auto config = tiny_config();
  train(config, run_);
  config.quantizer.operators = "plain";
  train(config, folder_.path() / "plain");
  const auto ours = lines_of_kind(run_, "step"),
             plain = lines_of_kind(folder_.path() / "plain", "step");
  ASSERT_EQ(ours.size(), plain.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    for (const auto* name : {"loss", "commitment", "ns"}) {
      if (!plain[i].contains(name)) continue;
      const double expected = plain[i].at(name);
      EXPECT_NEAR(ours[i].at(name).get<double>(), expected, 1e-3 * std::abs(expected)) << name << i;
    }
  }
}

}  // namespace
}  // namespace nsvq
