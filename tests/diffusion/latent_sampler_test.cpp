#include "nsvq/diffusion/latent_sampler.h"

#include <gtest/gtest.h>

#include <numeric>

#include "nsvq/core/device.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/precision.h"
#include "nsvq/diffusion/latent_space.h"
#include "nsvq/train/steps/cuda_graph.h"
#include "tests/diffusion/tiny_diffusion.h"
#include "tests/error_of.h"

namespace nsvq {
namespace {

/// A network whose output is not zero, as that of a fresh one.
DiffusionModel made_up_model(const DiffusionConfig& config) {
  torch::manual_seed(11);
  DiffusionModel model(config, 4);
  const torch::NoGradGuard no_grad;
  for (const auto& parameter : model->parameters()) parameter.normal_(0, 0.2);
  model->latent_mean.fill_(0.5);
  model->latent_deviation.fill_(2);
  return model;
}

torch::Tensor sampled(const DiffusionConfig& config, const std::vector<int64_t>& indices,
                      const std::vector<int64_t>& labels = {}, int64_t seed = 3) {
  LatentSampler sampler(made_up_model(config), config, {4, 4, 4}, at::kCPU);
  return sampler.sample({seed, indices, labels});
}

TEST(LatentSampler, AnImageDoesNotDependOnItsBatch) {
  auto config = tiny_diffusion_config("");
  for (const auto& kind : sampler_kinds()) {
    config.sample.sampler = kind.name;
    const auto all = sampled(config, {0, 1, 2, 3, 4});
    ASSERT_EQ(all.sizes(), (std::vector<int64_t>{5, 4, 4, 4}));
    EXPECT_TRUE(at::allclose(sampled(config, {3}), all.slice(0, 3, 4), 1e-3, 1e-4)) << kind.name;
    EXPECT_TRUE(at::allclose(sampled(config, {1, 2}), all.slice(0, 1, 3), 1e-3, 1e-4)) << kind.name;
    EXPECT_FALSE(at::allclose(all[0], all[1]));
    EXPECT_FALSE(at::allclose(sampled(config, {0}, {}, 4), all.slice(0, 0, 1))) << "another seed";
  }
}

TEST(LatentSampler, CanBeStoppedBeforeEachStep) {
  auto config = tiny_diffusion_config("");
  config.sample.steps = 5;
  LatentSampler sampler(made_up_model(config), config, {4, 4, 4}, at::kCPU);
  int steps = 0;
  sampler.sample({.seed = 3, .indices = {0}, .labels = {}, .before_step = [&] { ++steps; }});
  EXPECT_EQ(steps, 5);
  const auto stop = [&] {
    if (--steps == 2) throw Interrupted();
  };
  EXPECT_THROW(sampler.sample({.seed = 3, .indices = {0}, .labels = {}, .before_step = stop}),
               Interrupted);
}

TEST(LatentSampler, GuidanceGoesBeyondTheClass) {
  auto config = tiny_diffusion_config("");
  config.classes = 3;
  config.sample.steps = 1;  // linear in the network's output
  const auto with = [&](double guidance, int64_t label) {
    config.guidance = guidance;
    return sampled(config, {0, 1}, {label, label});
  };
  const auto told = with(1, 2), not_told = with(0, 2), guided = with(3, 2);
  EXPECT_TRUE(at::allclose(guided, not_told + 3 * (told - not_told), 1e-3, 1e-2));
  EXPECT_TRUE(at::allclose(with(0, 1), not_told, 1e-4, 1e-4)) << "the class is not told";
  EXPECT_FALSE(at::allclose(with(1, 1), told));
}

TEST(LatentSampler, GuidanceNeedsDroppedLabels) {
  auto config = tiny_diffusion_config("");
  config.guidance = 2;
  EXPECT_NE(error_of([&] { sampled(config, {0}); }).find("no classes"), std::string::npos);
  config.classes = 3;
  config.label_dropout = 0;
  EXPECT_NE(error_of([&] { sampled(config, {0}, {1}); }).find("label_dropout"), std::string::npos);
}

TEST(LatentSampler, ClassesTakeTurns) {
  auto config = tiny_diffusion_config("");
  EXPECT_TRUE(labels_for(config.told(), -1, {0, 1}).empty());
  EXPECT_NE(error_of([&] { labels_for(config.told(), 0, {0}); }).find("no classes"),
            std::string::npos);
  config.classes = 3;
  EXPECT_EQ(labels_for(config.told(), -1, {0, 1, 2, 3, 7}), (std::vector<int64_t>{0, 1, 2, 0, 1}));
  EXPECT_EQ(labels_for(config.told(), 2, {0, 1}), (std::vector<int64_t>{2, 2}));
  std::vector<int64_t> images(3000), counts(3);
  std::iota(images.begin(), images.end(), 0);
  const auto random = labels_for(config.told(), kRandomClasses, images, 5);
  for (const int64_t label : random) ++counts.at(label);
  for (const int64_t count : counts) EXPECT_NEAR(count, 1000, 80);
  EXPECT_EQ(labels_for(config.told(), kRandomClasses, {7}, 5)[0], random[7]);
  EXPECT_NE(labels_for(config.told(), kRandomClasses, images, 6), random);
  EXPECT_NE(error_of([&] { labels_for(config.told(), 3, {0}); }).find("classes 0 to 2"),
            std::string::npos);
}

/// At the last time next to nothing of latents is left, and before the first one nothing is added.
TEST(LatentSampler, LatentsComeOutOfTheNoiseOfATime) {
  auto config = tiny_diffusion_config("");
  config.sample.steps = 20;
  const SampleRequest request{.seed = 3, .indices = {0, 1}};
  const auto latents = at::randn({2, 4, 4, 4});
  const auto model = made_up_model(config);
  for (const auto& kind : sampler_kinds()) {
    config.sample.sampler = kind.name;
    LatentSampler sampler(model, config, {4, 4, 4}, at::kCPU);
    const auto from_mean = sampler.denoise(request, {at::full_like(latents, 0.5), 999});
    EXPECT_TRUE(at::allclose(from_mean, sampler.sample(request), 1e-2, 1e-2)) << kind.name;
    EXPECT_TRUE(at::equal(sampler.denoise(request, {latents, 48}), latents)) << "no time to visit";
    int steps = 0;
    auto counted = request;
    counted.before_step = [&] { ++steps; };
    const auto early = sampler.denoise(counted, {latents, 99});
    EXPECT_EQ(steps, 2) << "times 99 and 49";
    EXPECT_LT((early - latents).norm().item<double>(), (from_mean - latents).norm().item<double>());
  }
}

/// The loss at the time that an image draws is that of training.
TEST(DenoisingLoss, AtATimeIsTheLossOfThatTime) {
  auto config = tiny_diffusion_config("");
  config.noise.times = 5;
  config.noise.beta_end = 0.5;
  config.objective.weighting = "min-snr";
  auto model = made_up_model(config);
  const DenoisingLoss loss(config, at::kCPU);
  const DenoisingLoss::Images images{at::randn({6, 4, 4, 4}), {}, at::arange(6)};
  const torch::NoGradGuard no_grad;
  const auto drawn = loss(model, images, DenoisingLoss::Labels::kept);
  auto seen = at::zeros({6});
  for (int64_t time = 0; time < config.noise.times; ++time) {
    const auto errors = loss.at_time(model, images, time);
    seen += (errors.loss - drawn).abs().lt(1e-5 * drawn);
    EXPECT_TRUE(errors.data.gt(0).all().item<bool>());
  }
  EXPECT_TRUE(seen.eq(1).all().item<bool>()) << seen;
}

/// The network as a CUDA graph, after its first steps, for batches of two sizes in turn: to the
/// bits what it is without, in fp32, and in bf16 with weights that are cast once.
TEST(LatentSampler, ItsCudaGraphIsTheNetworkOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const c10::Device device(at::kCUDA, 0);
  const SideStreamGuard stream(device);
  for (const auto* precision : {"fp32", "bf16"}) {
    const AutocastCacheGuard cached_casts;
    auto config = tiny_diffusion_config("");
    config.train.precision = precision;
    config.sample.steps = 7;
    auto model = made_up_model(config);
    move_to_device(model, config, device);
    LatentSampler graphs(model, config, {4, 4, 4}, device, /*graphs=*/true);
    LatentSampler eager(model, config, {4, 4, 4}, device, /*graphs=*/false);
    for (const int64_t count : {3, 3, 2, 3}) {
      SampleRequest request{.seed = 5, .indices = {}, .labels = {}};
      for (int64_t i = 0; i < count; ++i) request.indices.push_back(i);
      const auto captured = graphs.sample(request);
      EXPECT_TRUE(at::equal(captured, eager.sample(request))) << precision << " " << count;
    }
  }
}

/// A sample on a GPU, in fp32, is that of the CPU up to rounding: the same noise, the same steps.
TEST(LatentSampler, SamplesAsOnTheCpuOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const TorchFlags flags({});  // no TF32
  const c10::Device device(at::kCUDA, 0);
  auto config = tiny_diffusion_config("");
  config.train.precision = "fp32";
  for (const auto& kind : sampler_kinds()) {
    config.sample.sampler = kind.name;
    auto model = made_up_model(config);
    move_to_device(model, config, device);
    LatentSampler sampler(model, config, {4, 4, 4}, device);
    const auto here = sampler.sample({3, {0, 1, 2}, {}}).cpu();
    EXPECT_TRUE(at::allclose(here, sampled(config, {0, 1, 2}), 1e-2, 1e-2)) << kind.name;
    const auto alone = sampler.sample({3, {2}, {}}).cpu();
    EXPECT_TRUE(at::allclose(alone, here.slice(0, 2, 3), 1e-3, 1e-3)) << kind.name;
  }
}

TEST(LatentStatistics, ByHand) {
  LatentStatistics moments(2, at::kCPU);
  moments.add(at::tensor({1.0f, 3.0f, 7.0f, 7.0f}).view({1, 2, 1, 2}));
  moments.add(at::tensor({5.0f, 7.0f}).view({1, 2, 1, 1}));
  EXPECT_TRUE(at::allclose(moments.mean(), at::tensor({3.0f, 7.0f})));
  EXPECT_TRUE(at::allclose(moments.deviation(), at::tensor({1.6329932f, 1.0f})))
      << "1 for a channel that does not vary";
}

}  // namespace
}  // namespace nsvq
