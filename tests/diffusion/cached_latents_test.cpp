// Folders of latents (`nsvq encode`): made, completed, trained on, refused.

#include <gtest/gtest.h>

#include "nsvq/core/error.h"
#include "nsvq/diffusion/cache_latents.h"
#include "nsvq/diffusion/diffusion_batches.h"
#include "nsvq/diffusion/latent_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/runs/layout/layout.h"
#include "tests/diffusion/tiny_diffusion.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

CacheLatentsOptions cache_options(const InferenceSession& session, const fs::path& out) {
  CacheLatentsOptions options;
  options.out = out;
  options.source = "images";
  options.shard_size = 8;
  options.loader = session.loader_options();
  options.loader.batch_size = 4;
  return options;
}

LatentManifest cache_training_images(const DiffusionConfig& config, const fs::path& out) {
  InferenceSession session(config.tokenizer, "cpu");
  return cache_latents(session, open_source(config.data.train), cache_options(session, out));
}

TensorMap trained_weights(const DiffusionConfig& config, const fs::path& run) {
  DiffusionTrainer(config, run, make_single_group()).loop().train();
  return read_safetensors(list_checkpoints(run).back() / "model.safetensors").tensors;
}

/// The encoder's output, rounded to bf16, in the order of the source.
TEST(CachedLatents, AreTheEncodersOutput) {
  const TemporaryFolder folder;
  auto config = tiny_diffusion_config(write_tiny_tokenizer(folder.path()));
  config.data.train = "builtin:dead-leaves?size=16&count=21";
  const auto manifest = cache_training_images(config, folder / "latents");
  EXPECT_EQ(manifest.images, 21);
  EXPECT_EQ(manifest.shards, 3);
  EXPECT_EQ(manifest.shape, (std::vector<int64_t>{4, 4, 4}));
  LatentSpace space(load_tokenizer(config.tokenizer), "encoder", at::kCPU);
  const auto source = open_source(config.data.train);
  InferenceSession session(config.tokenizer, "cpu");
  Loader loader(open_source(config.data.train), session.loader_options());
  loader.start(0);
  std::vector<torch::Tensor> wanted, found;
  while (const auto batch = loader.next()) wanted.push_back(space.encode(batch->images));
  std::vector<std::string> keys;
  for (int64_t i = 0; i < manifest.shards; ++i) {
    const auto shard = read_latent_shard(folder / "latents" / latent_shard_name(i), manifest.shape);
    found.push_back(shard.latents.to(at::kFloat));
    keys.insert(keys.end(), shard.keys.begin(), shard.keys.end());
  }
  EXPECT_TRUE(at::allclose(at::cat(found), at::cat(wanted), /*rtol=*/1.0 / 256, /*atol=*/1e-5));
  ASSERT_EQ(std::ssize(keys), 21);
  for (int64_t i = 0; i < 21; ++i) EXPECT_EQ(keys[i], source->key(i));
}

/// Steps on the same images in the same order, with latents that differ by rounding to bf16.
TEST(CachedLatents, TrainAsTheirImagesDo) {
  const TemporaryFolder folder;
  auto config = tiny_diffusion_config(write_tiny_tokenizer(folder.path()));
  cache_training_images(config, folder / "latents");
  const auto by_images = trained_weights(config, folder / "images");
  config.cached = (folder / "latents").string();
  config.data.train = "nowhere";
  const auto by_cache = trained_weights(config, folder / "cache");
  for (const auto& [name, tensor] : by_images) {
    // Six steps of Adam at 1e-3: where a gradient is about zero its sign may change.
    EXPECT_TRUE(at::allclose(tensor, by_cache.at(name), 1e-2, 2e-3)) << name;
  }
  const auto mean = by_images.at("latent_mean");
  EXPECT_TRUE(at::allclose(mean, by_cache.at("latent_mean"), 1e-3, 1e-3));
}

TEST(CachedLatents, ALeftFolderIsCompleted) {
  const TemporaryFolder folder;
  const auto config = tiny_diffusion_config(write_tiny_tokenizer(folder.path()));
  cache_training_images(config, folder / "whole");
  InferenceSession session(config.tokenizer, "cpu");
  {  // The folder after its first shard.
    fs::create_directory(folder / "left");
    const auto broken = [&] {
      auto options = cache_options(session, folder / "left");
      struct Stopping : Source {
        std::shared_ptr<const Source> source;
        int64_t size() const override { return source->size(); }
        std::string key(int64_t i) const override { return source->key(i); }
        int64_t label(int64_t i) const override { return source->label(i); }
        Image load(int64_t i) const override {
          if (i >= 12) throw UserError("the disk is gone");
          return source->load(i);
        }
      };
      auto stopping = std::make_shared<Stopping>();
      stopping->source = open_source(config.data.train);
      options.loader.on_error = OnError::stop;
      options.loader.threads = 1;
      cache_latents(session, stopping, options);
    };
    EXPECT_NE(error_of(broken).find("the disk is gone"), std::string::npos);
    EXPECT_TRUE(fs::exists(folder / "left" / latent_shard_name(0)));
    EXPECT_NE(error_of([&] { read_latent_manifest(folder / "left"); }).find("no complete latents"),
              std::string::npos);
  }
  cache_training_images(config, folder / "left");
  for (const auto& entry : fs::directory_iterator(folder / "whole")) {
    EXPECT_EQ(read_text(entry.path()), read_text(folder / "left" / entry.path().filename()));
  }
}

TEST(CachedLatents, WhatDoesNotFitIsNamed) {
  const TemporaryFolder folder;
  auto config = tiny_diffusion_config(write_tiny_tokenizer(folder.path()));
  cache_training_images(config, folder / "latents");
  config.cached = (folder / "latents").string();
  const auto open = [](const DiffusionConfig& settings) {
    check_diffusion_settings(settings);
    LatentSpace space(load_tokenizer(settings.tokenizer), settings.latents, at::kCPU);
    return make_diffusion_batches(settings, space, *make_single_group(), at::kCPU);
  };
  EXPECT_EQ(open(config)->samples(), 24);
  const auto error = [&](auto change) {
    auto changed = config;
    change(changed);
    return error_of([&] { open(changed); });
  };
  expect_contains(error([](auto& c) { c.latents = "codes"; }),
                  {"diffusion.latents must be encoder"});
  expect_contains(error([](auto& c) { c.classes = 2; }), {"diffusion.cached", "has no class"});
  expect_contains(error([](auto& c) { c.data.size = 32; }), {"diffusion.cached", "grids of 4x4"});
  expect_contains(error([](auto& c) { c.cached = "nowhere"; }), {"diffusion.cached: nowhere"});
  const auto shard = folder / "latents" / latent_shard_name(1);
  auto text = read_text(shard);
  text.back() = static_cast<char>(text.back() + 1);
  write_text(shard, text);
  expect_contains(error([](auto&) {}), {latent_shard_name(1), "does not hold what"});
  auto other = tiny_tokenizer_config();
  other.seed = 5;
  write_tiny_tokenizer(folder.path(), other);
  expect_contains(error([](auto&) {}), {"diffusion.cached", "latents of another model"});
}

}  // namespace
}  // namespace nsvq
