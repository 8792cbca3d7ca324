#include "nsvq/generation/generator_session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "nsvq/runs/layout/layout.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/generation/tiny_generation.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

class Sessions : public testing::Test {
 protected:
  /// A generator that has hardly trained, so that its draws are far from certain.
  fs::path trained(const std::string& family, int64_t classes = 0) {
    auto config = tiny_generation_config(write_tiny_tokenizer(folder_.path()), family);
    if (classes > 0) {
      config.tokens =
          write_npy(folder_ / "tokens.npy", at::arange(24 * 16).remainder(64).view({24, 4, 4}));
      config.token_classes = write_npy(folder_ / "classes.npy", at::arange(24).remainder(classes));
      config.val_tokens = config.tokens;
      config.val_token_classes = config.token_classes;
      config.classes = classes;
      config.sampling.guidance = 1.5;
    }
    config.train.epochs = 1;
    config.train.samples_every = 0;
    const auto run = folder_ / (family + std::to_string(classes));
    train_generator(config, run);
    return run;
  }
  static std::unique_ptr<GeneratorSession> open(const fs::path& run, int64_t batch_size = 64) {
    return std::make_unique<GeneratorSession>(
        load_generator(run), GeneratorSession::Options{.threads = 1, .batch_size = batch_size});
  }
  static GenerationRequest request_of(std::vector<int64_t> indices, int64_t classes = 0) {
    GenerationRequest request{.seed = 3, .indices = std::move(indices), .labels = {}, .given = {}};
    for (const int64_t i : request.indices) {
      if (classes > 0) request.labels.push_back(i % classes);
    }
    return request;
  }

  TemporaryFolder folder_;
};

/// Bit for bit, for other numbers of images, other orders and other sizes of batches.
TEST_F(Sessions, AnImageDependsOnSeedAndNumberAlone) {
  for (const auto* family : {"masked", "ar", "rar"}) {
    SCOPED_TRACE(family);
    const auto run = trained(family, 3);
    std::vector<int64_t> all(19);
    std::iota(all.begin(), all.end(), 0);
    const auto session = open(run);
    const auto tokens = session->sample_tokens(request_of(all, 3));
    const auto images = session->decode(tokens);
    EXPECT_EQ(images.sizes(), at::IntArrayRef({19, 3, 16, 16}));
    EXPECT_GT(std::get<0>(at::_unique(tokens)).numel(), 20) << "images differ";

    auto backwards = all;
    std::reverse(backwards.begin(), backwards.end());
    EXPECT_TRUE(at::equal(session->sample(request_of(backwards, 3)).flip(0), images));
    for (const auto& few : std::vector<std::vector<int64_t>>{{5}, {17, 2, 9}}) {
      const auto rows = at::tensor(few);
      EXPECT_TRUE(at::equal(session->sample(request_of(few, 3)), images.index_select(0, rows)));
    }
    for (const int64_t batch : {1, 5}) {
      EXPECT_TRUE(at::equal(open(run, batch)->sample(request_of(all, 3)), images)) << batch;
    }
    auto other = request_of(all, 3);
    other.seed = 4;
    EXPECT_FALSE(at::equal(session->sample_tokens(other), tokens));
  }
}

TEST_F(Sessions, FillingLeavesTheOtherTokens) {
  const auto session = open(trained("masked"));
  const auto image = at::rand({3, 16, 16}) * 2 - 1;
  const auto known = session->codec().encode(image.unsqueeze(0)).squeeze(0);
  auto mask = at::zeros({4, 4}, at::kBool);
  mask.slice(0, 1, 3).slice(1, 0, 2).fill_(true);
  const auto filled = session->fill(image, mask, request_of({0, 1, 2, 3, 4}));
  EXPECT_EQ(filled.sizes(), at::IntArrayRef({5, 3, 16, 16}));
  GenerationRequest request = request_of({0, 1, 2, 3, 4});
  request.given = known.masked_fill(mask, -1).flatten();
  const auto tokens = session->sample_tokens(request);
  EXPECT_TRUE(at::equal(session->decode(tokens), filled));
  const auto kept = mask.logical_not().expand_as(tokens);
  EXPECT_TRUE(at::equal(tokens.masked_select(kept), known.expand_as(tokens).masked_select(kept)));
  EXPECT_FALSE(at::equal(tokens, known.expand_as(tokens)));
  EXPECT_TRUE(tokens.ge(0).all().item<bool>());
}

TEST_F(Sessions, AnImageGoesOnToEachSide) {
  const auto session = open(trained("masked"));
  const auto image = at::rand({3, 16, 16}) * 2 - 1;
  for (const auto side : {ImageSide::left, ImageSide::right, ImageSide::top, ImageSide::bottom}) {
    const bool across = side == ImageSide::left || side == ImageSide::right;
    const bool ahead = side == ImageSide::right || side == ImageSide::bottom;
    const auto made = session->continued(image, side, request_of({0, 1}));
    EXPECT_EQ(made.sizes(),
              across ? at::IntArrayRef({2, 3, 16, 24}) : at::IntArrayRef({2, 3, 24, 16}));
    const auto own = made.narrow(across ? 3 : 2, ahead ? 0 : 8, 16);
    EXPECT_TRUE(at::equal(own, image.unsqueeze(0).expand_as(own)));
  }
}

TEST_F(Sessions, OnlySomeFamiliesFillGaps) {
  const auto session = open(trained("ar"));
  const auto image = at::zeros({3, 16, 16});
  expect_contains(error_of([&] {
                    session->fill(image, at::ones({4, 4}, at::kBool), request_of({0}));
                  }),
                  {"family ar", "masked"});
  expect_contains(error_of([&] { session->continued(image, ImageSide::left, request_of({0})); }),
                  {"family ar"});
}

TEST_F(Sessions, WithoutATokenizerTokensAreMade) {
  auto config = tiny_generation_config({}, "ar");
  config.tokens = write_npy(folder_ / "rows.npy", at::arange(16 * 6).remainder(11).view({16, 6}));
  config.train.epochs = 1;
  train_generator(config, folder_ / "run");
  const auto session = open(folder_ / "run");
  const auto tokens = session->sample_tokens(request_of({0, 1, 2}));
  EXPECT_EQ(tokens.sizes(), at::IntArrayRef({3, 1, 6}));
  EXPECT_TRUE(tokens.ge(0).logical_and(tokens.lt(11)).all().item<bool>());
  expect_contains(error_of([&] { session->decode(tokens); }), {"makes no images", ".npy"});
  expect_contains(
      error_of([&] { GeneratorSession(load_generator(folder_ / "run"), {.tokenizer = "x"}); }),
      {"--tokenizer x", "without a tokenizer"});
}

TEST_F(Sessions, ATokenizerThatMovedIsNamedAndMustBeTheSame) {
  const auto run = trained("masked");
  const auto tokenizer = folder_ / "tokenizer.safetensors", moved = folder_ / "moved.safetensors";
  fs::rename(tokenizer, moved);
  expect_contains(error_of([&] { open(run); }), {"its tokenizer", "--tokenizer"});
  GeneratorSession named(load_generator(run), {.tokenizer = moved.string(), .threads = 1});
  EXPECT_TRUE(named.has_tokenizer());
  auto other = tiny_tokenizer_config();
  other.seed = 9;
  write_tiny_tokenizer(folder_.path(), other);
  expect_contains(error_of([&] { open(run); }), {"not the tokenizer that"});
}

TEST_F(Sessions, AnExportSamplesByItself) {
  const auto run = trained("masked");
  const auto session = open(run);
  export_generator(session->generator(), &session->codec().model(), folder_ / "export");
  const auto images = session->sample(request_of({0, 1}));
  fs::remove(folder_ / "tokenizer.safetensors");
  EXPECT_TRUE(at::equal(open(folder_ / "export")->sample(request_of({0, 1})), images));
  expect_contains(
      error_of([&] { export_generator(session->generator(), nullptr, folder_ / "export"); }),
      {"exists already"});
}

TEST_F(Sessions, AFileCutShortIsRefused) {
  const auto run = trained("masked");
  const auto file = list_checkpoints(run).back() / kModelFile;
  const auto text = read_text(file);
  write_text(folder_ / "cut.safetensors", text.substr(0, text.size() - 100));
  expect_contains(error_of([&] { load_generator(folder_ / "cut.safetensors"); }),
                  {"cut.safetensors"});
  expect_contains(error_of([&] { load_generator(folder_ / "tokenizer.safetensors"); }),
                  {"tokenizer.safetensors", "where a generator of tokens is asked for"});
  expect_contains(error_of([&] { load_model(file); }), {"a generator of tokens", "nsvq generate"});
}

}  // namespace
}  // namespace nsvq
