#include "nsvq/diffusion/diffusion_trainer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "nsvq/core/device.h"
#include "nsvq/diffusion/diffusion_batches.h"
#include "nsvq/diffusion/diffusion_model.h"
#include "nsvq/diffusion/latent_sampler.h"
#include "nsvq/recipe/loader_options.h"
#include "nsvq/runs/config.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/runs/list.h"
#include "nsvq/tokenizer/inference_session.h"
#include "nsvq/tokens/tokenize.h"
#include "tests/diffusion/tiny_diffusion.h"
#include "tests/error_of.h"
#include "tests/train/network_runs.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

/// Trains in a folder, or goes on there.
Outcome train_diffusion(const DiffusionConfig& config, const fs::path& run) {
  return train_network<DiffusionTrainer>(config, run);
}

TEST(DiffusionTrainer, TrainsEvaluatesAndShowsSamples) {
  const TemporaryFolder folder;
  const auto config = tiny_diffusion_config(write_tiny_tokenizer(folder.path()));
  expect_a_whole_run<DiffusionTrainer>(config, folder / "run");
  const auto loaded = load_diffusion(folder / "run");
  EXPECT_TRUE(essential_differences(loaded.config, config).empty());
  EXPECT_EQ(loaded.tokenizer.path, config.tokenizer);
}

/// Latents of all training images have mean 0 and deviation 1 as the network sees them.
TEST(DiffusionTrainer, NormalisesLatentsByTheTrainingImages) {
  const TemporaryFolder folder;
  for (const auto* kind : {"encoder", "codes"}) {
    auto config = tiny_diffusion_config(write_tiny_tokenizer(folder.path()));
    config.latents = kind;
    config.scale = 0.35;
    config.statistics_images = 0;
    config.train.steps = 1;
    train_diffusion(config, folder / kind);
    const auto loaded = load_diffusion(folder / kind);
    LatentSpace space(load_tokenizer(config.tokenizer), kind, at::kCPU);
    const auto source = open_source(config.data.train);
    auto options = training_loader_options(config, *make_single_group());
    LabelledImages images(open_source(config.data.train), options, {});
    images.start(0, 0, 0);
    std::vector<torch::Tensor> latents;
    while (const auto batch = images.next()) latents.push_back(space.encode(batch->front()));
    const auto seen = loaded.model->normalise(at::cat(latents));
    EXPECT_TRUE(at::allclose(seen.mean({0, 2, 3}), at::zeros({4}), 1e-4, 1e-4));
    EXPECT_TRUE(
        at::allclose(seen.std({0, 2, 3}, /*unbiased=*/false), at::full({4}, 0.35), 1e-3, 1e-3));
    EXPECT_TRUE(at::allclose(loaded.model->restore(seen), at::cat(latents), 1e-4, 1e-4));
  }
}

TEST(DiffusionTrainer, LatentsCanBeLearnedAsTheTokenizerHasThem) {
  const TemporaryFolder folder;
  auto config = tiny_diffusion_config(write_tiny_tokenizer(folder.path()));
  config.normalise = "none";
  config.scale = 0.5;
  config.train.steps = 1;
  train_diffusion(config, folder / "run");
  const auto loaded = load_diffusion(folder / "run");
  const auto latents = at::randn({2, 4, 4, 4});
  EXPECT_TRUE(at::equal(loaded.model->normalise(latents), latents * 0.5));
}

/// The codes of images that are always cropped alike, by both ways to them.
TEST(DiffusionTrainer, TokensTrainAsTheirImagesDo) {
  const TemporaryFolder folder;
  auto config = tiny_diffusion_config(write_tiny_tokenizer(folder.path()));
  config.latents = "codes";
  train_diffusion(config, folder / "images");

  InferenceSession session(config.tokenizer, "cpu");
  const auto tokens = folder / "tokens";
  TokenizeOptions options;
  options.out = tokens;
  options.loader = session.loader_options();
  tokenize(session, open_source(config.data.train), options);
  config.tokens = tokens.string();
  config.data.train = "nowhere";
  train_diffusion(config, folder / "run");
  const auto one = averaged_weights(folder / "images"), two = averaged_weights(folder / "run");
  for (const auto& [name, tensor] : one) {
    EXPECT_TRUE(at::allclose(tensor, two.at(name), 1e-3, 1e-5)) << name;
  }

  const auto error = [&](auto change) {
    auto changed = config;
    change(changed);
    return error_of([&] { train_diffusion(changed, folder / "other"); });
  };
  EXPECT_NE(error([](auto& c) { c.classes = 2; }).find("has no class"), std::string::npos);
  EXPECT_NE(error([](auto& c) { c.data.size = 32; }).find("grids of 4x4"), std::string::npos);
  EXPECT_NE(error([](auto& c) { c.tokens = "nowhere"; }).find("diffusion.tokens: nowhere"),
            std::string::npos);
  options.out = folder / "mirrored";
  options.parts = TokenizedParts::image_and_mirror_image;
  tokenize(session, open_source("builtin:dead-leaves?size=16&count=8"), options);
  EXPECT_NE(error([&](auto& c) { c.tokens = folder / "mirrored"; }).find("2 crops of each image"),
            std::string::npos);
  auto other = tiny_tokenizer_config();
  other.seed = 5;
  write_tiny_tokenizer(folder.path(), other);
  EXPECT_NE(error([](auto&) {}).find("tokens of another model"), std::string::npos);
}

TEST(DiffusionTrainerDeathTest, AKilledRunResumesToTheSameBits) {
  expect_a_killed_run_goes_on<DiffusionTrainer, DiffusionConfig>("NSVQ_DIFFUSION_TEST",
                                                                 tiny_diffusion_config);
}

TEST(DiffusionTrainer, TwoRanksAreOne) {
  const TemporaryFolder folder;
  // On the CPU: on a GPU the ranks, threads of this process, would share the one thread that its
  // backward passes run in, and wait there for each other.
  expect_two_ranks_are_one<DiffusionTrainer>(
      tiny_diffusion_config(write_tiny_tokenizer(folder.path())), folder.path());
}

/// A tokenizer's latents of 16 images, and a network that comes to know them by heart.
TEST(DiffusionTrainer, SixteenImagesAreLearntByHeart) {
  const TemporaryFolder folder;
  auto config = tiny_diffusion_config(write_tiny_tokenizer(folder.path()));
  const std::string sixteen = "builtin:dead-leaves?size=16&count=16";
  config.data.val = sixteen;
  config.data.train = std::vector<std::string>(40, sixteen);  // so that epochs are long
  config.objective.prediction = "v";
  config.noise.schedule = "cosine";
  config.unet = {.width = 32, .multipliers = {1, 2}, .blocks = 1, .attention = {1}, .heads = 2};
  config.train.batch_size = 16;
  config.train.steps = 1200;
  config.train.eval_every = config.train.samples_every = 0;
  config.train.log_every = 100;
  config.checkpoint.every_steps = 1200;
  config.optimizer.lr = 3e-3;
  config.optimizer.ema_decay = 0.99;
  config.optimizer.schedule = {.shape = "cosine", .warmup_steps = 50};
  config.sample.steps = 50;
  train_diffusion(config, folder / "run");

  auto loaded = load_diffusion(folder / "run");
  LatentSpace space(load_tokenizer(config.tokenizer), "encoder", at::kCPU);
  Loader images(open_source(sixteen), inference_loader_options(config));
  images.start(0);
  const auto known = loaded.model->normalise(space.encode(images.next()->images)).flatten(1);
  ASSERT_EQ(known.size(0), 16);
  SampleRequest request{.seed = 5, .indices = {}, .labels = {}};
  for (int64_t i = 0; i < 32; ++i) request.indices.push_back(i);
  LatentSampler sampler(loaded.model, config, {4, 4, 4}, at::kCPU);
  const auto samples = loaded.model->normalise(sampler.sample(request)).flatten(1);
  // Root mean square differences; those between images are about 1.4.
  const auto [nearest, which] = (at::cdist(samples, known) / std::sqrt(64.0)).min(/*dim=*/1);
  EXPECT_LT(nearest.median().item<double>(), 0.4) << nearest;
  EXPECT_GE(std::get<0>(at::_unique(which)).numel(), 8) << "several of them";
}

TEST(DiffusionTrainer, SettingsThatCannotRunAreNamed) {
  const TemporaryFolder folder;
  const auto good = tiny_diffusion_config(write_tiny_tokenizer(folder.path()));
  const auto error = [&](auto change) {
    auto config = good;
    change(config);
    return error_of([&] { train_diffusion(config, folder / "run"); });
  };
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(error([](auto& c) { c.tokenizer = ""; }), "diffusion.tokenizer is not set");
  has(error([](auto& c) { c.tokenizer = "nowhere"; }), "diffusion.tokenizer: nowhere");
  has(error([](auto& c) { c.classes = 3; }), "has no class");
  has(error([](auto& c) { c.data.size = 20; }), "data.size 20 is not a multiple of 8");
  write_tiny_tokenizer(folder.path(), tiny_tokenizer_config("none"));
  has(error([](auto& c) { c.latents = "codes"; }), "without codes");
  EXPECT_FALSE(fs::exists(folder / "run")) << "nothing is begun";
}

TEST(DiffusionTrainer, AnotherTokenizerIsRefusedWhenARunGoesOn) {
  const TemporaryFolder folder;
  auto config = tiny_diffusion_config(write_tiny_tokenizer(folder.path()));
  train_diffusion(config, folder / "run");
  auto other = tiny_tokenizer_config();
  other.seed = 1;
  write_tiny_tokenizer(folder.path(), other);
  config.train.epochs = 3;
  const auto error = error_of([&] { train_diffusion(config, folder / "run"); });
  EXPECT_NE(error.find("is not the tokenizer that"), std::string::npos) << error;
  write_tiny_tokenizer(folder.path());
  config.noise.schedule = "cosine";
  EXPECT_NE(error_of([&] { train_diffusion(config, folder / "run"); }).find("diffusion.schedule"),
            std::string::npos);
}

TEST(DiffusionTrainer, NonFiniteLatentsNameTheImage) {
  const TemporaryFolder folder;
  auto config = tiny_diffusion_config(write_overflowing_tokenizer(folder.path()));
  for (const auto* latents : {"encoder", "codes"}) {
    config.latents = latents;
    const auto error = error_of([&] { train_diffusion(config, folder / latents); });
    EXPECT_NE(error.find("data.train: the latents of image '"), std::string::npos) << error;
  }
}

TEST(DiffusionTrainer, RunsAsACudaGraphOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const TemporaryFolder folder;
  expect_graphs_are_eager<DiffusionTrainer>(
      tiny_diffusion_config(write_tiny_tokenizer(folder.path())), folder.path());
}

}  // namespace
}  // namespace nsvq
