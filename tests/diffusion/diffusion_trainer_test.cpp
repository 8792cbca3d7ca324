#include "nsvq/diffusion/diffusion_trainer.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <cstdlib>

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
#include "tests/train/run_traces.h"
#include "tests/two_ranks.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

/// Trains in a folder, or goes on there.
Outcome train_diffusion(const DiffusionConfig& config, const fs::path& run,
                        const Loop::Hook& hook = {}) {
  const auto start = fs::exists(run) ? Start::resume : Start::fresh;
  DiffusionTrainer trainer(config, run, make_single_group(), start);
  if (hook) trainer.loop().on_step(hook);
  return trainer.loop().train();
}

TensorMap averaged_weights(const fs::path& run) {
  return read_safetensors(list_checkpoints(run).back() / "model.safetensors").tensors;
}

TEST(DiffusionTrainer, TrainsEvaluatesAndShowsSamples) {
  const TemporaryFolder folder;
  auto config = tiny_diffusion_config(write_tiny_tokenizer(folder.path()));
  config.train.epochs = 6;
  const auto outcome = train_diffusion(config, folder / "run");
  EXPECT_TRUE(outcome.finished);
  std::vector<double> losses;
  for (const auto& line : timeless_metrics(folder / "run")) {
    if (line.at("kind") == "eval") losses.push_back(line.at("loss"));
  }
  ASSERT_EQ(losses.size(), 6u);
  EXPECT_LT(losses.back(), losses.front());
  EXPECT_TRUE(fs::exists(newest_samples(folder / "run")));
  EXPECT_TRUE(fs::exists(folder / "run/report.html"));
  const auto loaded = load_diffusion(folder / "run");
  EXPECT_TRUE(essential_differences(loaded.config, config).empty());
  EXPECT_EQ(loaded.tokenizer.path, config.tokenizer);

  // A list tells its kind and its budget, also by the checkpoints alone.
  for (const bool whole : {true, false}) {
    if (!whole) fs::remove(folder / "run" / kSettingsFile);
    EXPECT_EQ(kind_of_run(folder / "run"), RunKind::diffusion);
    const auto summary = describe_run(folder / "run");
    EXPECT_EQ(summary.state, "finished") << summary.problem;
    EXPECT_EQ(summary.total_steps, summary.step);
  }
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

/// The child of a death test runs this file again, so the folder's name comes by the environment.
TEST(DiffusionTrainerDeathTest, AKilledRunResumesToTheSameBits) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const TemporaryFolder own;
  setenv("NSVQ_DIFFUSION_TEST", own.path().c_str(), /*overwrite=*/0);
  const fs::path folder = std::getenv("NSVQ_DIFFUSION_TEST");
  const auto tokenizer = folder / "tokenizer.safetensors";
  if (!fs::exists(tokenizer)) write_tiny_tokenizer(folder);
  auto config = tiny_diffusion_config(tokenizer);
  config.train.epochs = 3;
  config.train.accumulate = 2;
  config.optimizer.schedule = {.shape = "cosine", .warmup_steps = 2};
  config.checkpoint.every_steps = 2;
  config.checkpoint.keep = 100;
  EXPECT_EXIT(train_diffusion(config, folder / "killed",
                              [](const RunState& state) {
                                if (state.step == 3) raise(SIGKILL);
                              }),
              testing::KilledBySignal(SIGKILL), "");
  train_diffusion(config, folder / "killed");
  train_diffusion(config, folder / "whole");
  expect_same_runs(folder / "whole", folder / "killed");
  unsetenv("NSVQ_DIFFUSION_TEST");
}

TEST(DiffusionTrainer, TwoRanksAreOne) {
  const TemporaryFolder folder;
  auto config = tiny_diffusion_config(write_tiny_tokenizer(folder.path()));
  // On a GPU the ranks, threads of this process, would share the one thread that its backward
  // passes run in, and wait there for each other.
  config.device = "cpu";
  config.train.global_batch = 8;
  // Layers start at zero, so first gradients are near zero, and Adam would make whole steps of
  // their rounding.
  config.optimizer.eps = 1e-2;
  train_diffusion(config, folder / "one");
  on_two_ranks([&](int rank, Group& group) {
    // The group belongs to the thread that lends it.
    const std::shared_ptr<Group> lent(&group, [](Group*) {});
    DiffusionTrainer(config, folder / "two", lent).loop().train();
    EXPECT_EQ(lent->rank(), rank);
  });
  const auto one = averaged_weights(folder / "one"), two = averaged_weights(folder / "two");
  ASSERT_EQ(one.size(), two.size());
  for (const auto& [name, tensor] : one) {
    EXPECT_TRUE(at::allclose(tensor, two.at(name), 1e-3, 1e-5))
        << name << " differs by " << (tensor - two.at(name)).abs().max().item<double>();
  }
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
  const auto settings = tiny_tokenizer_config();
  auto tokenizer = make_tokenizer(settings, at::kCPU);
  // A model that holds infinity itself is refused.
  tokenizer->encoder->named_parameters()["conv_out.weight"].data().fill_(3e38);
  const auto file = folder / "tokenizer.safetensors";
  write_model(file, named_tensors(*tokenizer), settings);
  auto config = tiny_diffusion_config(file);
  for (const auto* latents : {"encoder", "codes"}) {
    config.latents = latents;
    const auto error = error_of([&] { train_diffusion(config, folder / latents); });
    EXPECT_NE(error.find("data.train: the latents of image '"), std::string::npos) << error;
  }
}

TEST(DiffusionTrainer, RunsAsACudaGraphOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const TemporaryFolder folder;
  auto config = tiny_diffusion_config(write_tiny_tokenizer(folder.path()));
  config.train.epochs = 4;
  config.device = "cuda";
  config.train.precision = "bf16";
  EXPECT_EQ(DiffusionTrainer(config, folder / "trial", make_single_group())
                .loop()
                .graphs_disabled_reason(),
            "");
  train_diffusion(config, folder / "graphs");
  config.train.graphs = false;
  train_diffusion(config, folder / "eager");
  expect_same_training(folder / "eager", folder / "graphs");
}

}  // namespace
}  // namespace nsvq
