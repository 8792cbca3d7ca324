#include "nsvq/generation/generator_trainer.h"

#include <gtest/gtest.h>

#include "nsvq/core/device.h"
#include "nsvq/generation/generator_model.h"
#include "nsvq/generation/sampling/token_sampler.h"
#include "nsvq/ops/random/seeded_random.h"
#include "nsvq/runs/config.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/runs/list.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/generation/tiny_generation.h"
#include "tests/train/network_runs.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

TEST(GeneratorTrainer, TrainsEvaluatesAndShowsSamples) {
  const TemporaryFolder folder;
  const auto config = tiny_generation_config(write_tiny_tokenizer(folder.path()));
  expect_a_whole_run<GeneratorTrainer>(config, folder / "run");
  const auto loaded = load_generator(folder / "run");
  EXPECT_TRUE(essential_differences(loaded.config, config).empty());
  EXPECT_EQ(loaded.tokenizer.path, config.tokenizer);
  EXPECT_EQ(loaded.grid.height, 4);
  EXPECT_EQ(loaded.grid.codes, 64);
}

/// The tokens of images that are always cropped alike, by both ways to them.
TEST(GeneratorTrainer, TokensTrainAsTheirImagesDo) {
  const TemporaryFolder folder;
  auto config = tiny_generation_config(write_tiny_tokenizer(folder.path()));
  train_generator(config, folder / "images");
  config.tokens = write_token_folder(folder / "tokens", config.tokenizer, config.data.train.text());
  config.data.train = "nowhere";
  train_generator(config, folder / "tokens-run");
  EXPECT_EQ(first_difference(averaged_weights(folder / "images"),
                             averaged_weights(folder / "tokens-run")),
            "");
  EXPECT_EQ(first_difference(timeless_metrics(folder / "images"),
                             timeless_metrics(folder / "tokens-run")),
            "");
  // Tokens that stay in files of several sizes.
  auto in_files = config;
  in_files.tokens_in = "files";
  in_files.tokens =
      write_token_folder(folder / "shards", config.tokenizer,
                         tiny_generation_config().data.train.text(), /*shard_size=*/7);
  train_generator(in_files, folder / "files-run");
  EXPECT_EQ(
      first_difference(averaged_weights(folder / "images"), averaged_weights(folder / "files-run")),
      "");
  // Without the tokenizer they train alike, but are not evaluated or shown.
  config.tokenizer.clear();
  train_generator(config, folder / "bare");
  EXPECT_EQ(
      first_difference(averaged_weights(folder / "images"), averaged_weights(folder / "bare")), "");
  EXPECT_TRUE(lines_of_kind(folder / "bare", "eval").empty());
  EXPECT_TRUE(newest_samples(folder / "bare").empty());
}

TEST(GeneratorTrainer, HeldOutTokensAreEvaluatedAsTheirImages) {
  const TemporaryFolder folder;
  auto config = tiny_generation_config(write_tiny_tokenizer(folder.path()));
  train_generator(config, folder / "images");
  config.val_tokens = write_token_folder(folder / "val", config.tokenizer, config.data.val.text());
  config.data.val = "nowhere";
  train_generator(config, folder / "tokens");
  const auto one = lines_of_kind(folder / "images", "eval").back(),
             two = lines_of_kind(folder / "tokens", "eval").back();
  EXPECT_NEAR(one.at("loss"), two.at("loss"), 1e-6);
}

TEST(GeneratorTrainer, SourcesThatAreNoImagesTrainWithClasses) {
  const TemporaryFolder folder;
  for (const auto* family : {"masked", "ar", "rar"}) {
    auto config = tiny_generation_config({}, family);
    config.tokens = write_npy(folder / "rows.npy", at::arange(16 * 6).remainder(11).view({16, 6}));
    write_text(folder / "classes.txt", "0\n1\n2\n0\n1\n2\n0\n1\n2\n0\n1\n2\n0\n1\n2\n0\n");
    config.token_classes = (folder / "classes.txt").string();
    config.val_tokens = config.tokens;
    config.val_token_classes = config.token_classes;
    config.classes = 3;
    EXPECT_TRUE(train_generator(config, folder / family).finished);
    const auto loaded = load_generator(folder / family);
    EXPECT_EQ(loaded.grid.height, 1);
    EXPECT_EQ(loaded.grid.width, 6);
    EXPECT_EQ(loaded.grid.codes, 11);
    EXPECT_EQ(loaded.tokenizer.sha256, "");
    config.classes = 2;
    expect_contains(error_of([&] { train_generator(config, folder / "few"); }),
                    {"generator.tokens", "is of class 2", "generator.classes is 2"});
    EXPECT_FALSE(fs::exists(folder / "few"));
  }
}

TEST(GeneratorTrainerDeathTest, AKilledRunResumesToTheSameBits) {
  expect_a_killed_run_goes_on<GeneratorTrainer, GenerationConfig>(
      "NSVQ_GENERATION_TEST", [](const fs::path& tokenizer) {
        auto config = tiny_generation_config(tokenizer);
        EXPECT_GT(config.generator.dropout, 0);
        return config;
      });
}

TEST(GeneratorTrainer, TwoRanksAreOne) {
  const TemporaryFolder folder;
  auto config = tiny_generation_config(write_tiny_tokenizer(folder.path()));
  config.generator.dropout = 0;  // drawn from the one generator of this process's threads
  expect_two_ranks_are_one<GeneratorTrainer>(config, folder.path());
}

/// 16 grids of four classes, which a generator comes to know by heart.
class ByHeart : public testing::TestWithParam<std::string> {};

TEST_P(ByHeart, SixteenGridsAreSampledBack) {
  const TemporaryFolder folder;
  auto config = tiny_generation_config({}, GetParam());
  // The first token tells which of a class's grids it is.
  const auto seeds = at::arange(16);
  const auto known = uniform_rows(seeds, 0, 16).mul(32).to(at::kLong);
  known.select(1, 0).copy_(seeds);
  config.tokens = write_npy(folder / "known.npy", known.view({16, 4, 4}));
  config.token_classes = write_npy(folder / "classes.npy", seeds.remainder(4));
  config.classes = 4;
  config.codes = 32;
  config.generator.width = 48;
  config.generator.heads = 2;
  config.generator.dropout = 0;
  config.train.batch_size = 16;
  const bool masked = GetParam() == "masked";  // which sees a part of the tokens of each step
  config.train.steps = masked ? 700 : 400;
  config.train.eval_every = config.train.samples_every = 0;
  config.train.log_every = 100;
  config.checkpoint.every_steps = config.train.steps;
  config.optimizer.lr = 5e-3;
  config.optimizer.schedule = {.shape = "cosine", .warmup_steps = 20};
  if (masked) config.sampling.steps = 16;
  if (masked) config.sampling.temperature = 0.5;
  train_generator(config, folder / "run");

  const auto loaded = load_generator(folder / "run");
  TokenSampler sampler(loaded.generator, loaded.grid, loaded.config.sampling, at::kCPU, 16);
  GenerationRequest request{.seed = 5, .indices = {}, .labels = {}, .given = {}};
  for (int64_t i = 0; i < 64; ++i) {
    request.indices.push_back(i);
    request.labels.push_back(i % 4);
  }
  const auto samples = sampler.sample(request).flatten(1);
  const auto equal = samples.unsqueeze(1).eq(known).all(2);  // [64, 16]
  const auto found = equal.any(1).to(at::kLong);
  EXPECT_GE(found.sum().item<int64_t>(), masked ? 40 : 58) << "of 64 are one of the grids";
  EXPECT_GE(equal.any(0).sum().item<int64_t>(), 14) << "of 16 grids are among them";
  const auto of_class = equal.nonzero();
  for (int64_t i = 0; i < of_class.size(0); ++i) {
    EXPECT_EQ(of_class[i][0].item<int64_t>() % 4, of_class[i][1].item<int64_t>() % 4);
  }
}

INSTANTIATE_TEST_SUITE_P(GeneratorTrainer, ByHeart, testing::Values("masked", "ar", "rar"),
                         [](const auto& info) { return info.param; });

TEST(GeneratorTrainer, SettingsThatCannotRunAreNamed) {
  const TemporaryFolder folder;
  const auto good = tiny_generation_config(write_tiny_tokenizer(folder.path()));
  const auto tokens = write_token_folder(folder / "tokens", good.tokenizer, good.data.train.text());
  const auto error = [&](auto change) {
    auto config = good;
    change(config);
    const auto text = error_of([&] { train_generator(config, folder / "run"); });
    EXPECT_FALSE(fs::exists(folder / "run")) << "nothing is begun";
    return text;
  };
  expect_contains(error([](auto& c) { c.tokenizer = ""; }), {"generator.tokenizer is not set"});
  expect_contains(error([](auto& c) { c.tokenizer = "nowhere"; }),
                  {"generator.tokenizer: nowhere"});
  expect_contains(error([](auto& c) { c.classes = 3; }), {"has no class", "generator.classes"});
  expect_contains(error([](auto& c) { c.data.size = 18; }), {"data.size 18", "multiple of 4"});
  expect_contains(error([](auto& c) { c.codes = 32; }), {"generator.codes is 32", "64 codes"});
  expect_contains(error([&](auto& c) {
                    c.tokens = tokens;
                    c.data.size = 32;
                  }),
                  {"grids of 8x8", "generator.tokens has 4x4", "data.size=16"});
  expect_contains(error([&](auto& c) {
                    c.val_tokens = write_npy(folder / "val.npy", at::zeros({2, 3, 4}));
                  }),
                  {"generator.val_tokens", "3x4", "4x4"});
  expect_contains(error([&](auto& c) {
                    c.tokens = write_npy(folder / "few.npy", at::zeros({7, 4, 4}));
                  }),
                  {"7 images, fewer than one batch of 8"});
  for (const auto* where : {"memory", "files"}) {
    expect_contains(error([&](auto& c) {
                      c.tokens = tokens;
                      c.tokens_in = where;
                      c.train.batch_size = 25;
                    }),
                    {"24 images, fewer than one batch of 25"});
  }
  expect_contains(error([](auto& c) {
                    c.optimizer.undecayed = {"q", "nowhere"};
                  }),
                  {"optimizer.undecayed", "'nowhere'"});
  expect_contains(error([](auto& c) { c.generator.heads = 64; }), {"generator.heads 64"});
  expect_contains(error([](auto& c) { c.sampling.steps = 17; }), {"sampling.steps is 17"});
  const auto wrong = [&](auto change) {
    auto config = good;
    change(config);
    return error_of([&] { check_generation_settings(config); });
  };
  expect_contains(wrong([](auto& c) { c.sampling.guidance = 2; }), {"knows no classes"});
  expect_contains(wrong([](auto& c) {
                    c.classes = 2;
                    c.generator.label_dropout = 0;
                    c.sampling.guidance = 2;
                  }),
                  {"sampling.guidance 2", "label_dropout is 0"});
  expect_contains(wrong([](auto& c) { c.token_classes = "x.txt"; }), {"generator.tokens"});
}

TEST(GeneratorTrainer, OtherTokensAreRefusedWhenARunGoesOn) {
  const TemporaryFolder folder;
  auto config = tiny_generation_config(write_tiny_tokenizer(folder.path()));
  train_generator(config, folder / "run");
  config.train.epochs = 3;
  auto other = tiny_tokenizer_config();
  other.seed = 1;
  write_tiny_tokenizer(folder.path(), other);
  expect_contains(error_of([&] { train_generator(config, folder / "run"); }),
                  {"generator.tokenizer", "is not the tokenizer that"});
  write_tiny_tokenizer(folder.path());
  config.generator.depth = 3;
  expect_contains(error_of([&] { train_generator(config, folder / "run"); }),
                  {"generator.depth", "--fork NEW"});
}

TEST(GeneratorTrainer, AForkGoesOnWithOtherSettings) {
  const TemporaryFolder folder;
  auto config = tiny_generation_config(write_tiny_tokenizer(folder.path()));
  train_generator(config, folder / "run");
  const auto fork = [&](const GenerationConfig& changed) {
    GeneratorTrainer trainer(changed, folder / "fork", make_single_group(), Start::fork,
                             std::nullopt, folder / "run");
    trainer.loop().train();
  };
  auto wider = config;
  wider.generator.width = 64;
  wider.train.epochs = 3;
  expect_contains(error_of([&] { fork(wider); }), {"generator.width 32 -> 64"});
  EXPECT_FALSE(fs::exists(folder / "fork"));
  config.train.epochs = 3;
  config.optimizer.lr = 5e-4;
  config.generator.dropout = 0;
  fork(config);
  EXPECT_EQ(list_checkpoints(folder / "fork").back().filename(), "step-9");
  const auto loaded = load_generator(folder / "fork");
  EXPECT_EQ(loaded.config.optimizer.lr, 5e-4);
  EXPECT_EQ(loaded.tokenizer.sha256, load_generator(folder / "run").tokenizer.sha256);
}

TEST(GeneratorTrainer, NonFiniteLatentsNameTheImage) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();  // a CPU throws where codes are searched
  const TemporaryFolder folder;
  auto config = tiny_generation_config(write_overflowing_tokenizer(folder.path()));
  config.device = "cuda";
  config.train.on_nonfinite = "stop";
  expect_contains(error_of<RunError>([&] { train_generator(config, folder / "run"); }),
                  {"the latents of image '"});
}

TEST(GeneratorTrainer, RunsAsACudaGraphOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const TemporaryFolder folder;
  expect_graphs_are_eager<GeneratorTrainer>(
      tiny_generation_config(write_tiny_tokenizer(folder.path())), folder.path());
}

}  // namespace
}  // namespace nsvq
