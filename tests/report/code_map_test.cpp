#include "nsvq/report/page_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/data/images/grid.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/images/image.h"
#include "nsvq/tokenizer/inference_session.h"
#include "tests/cli/model_file.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

TEST(MainDirections, AreThoseOfLargestVariance) {
  // Along (1, 2, 0) and, less, (0, 0, 1).
  const auto a = torch::tensor({-3.0, -1.0, 1.0, 3.0}, torch::kDouble);
  const auto b = torch::tensor({0.5, -0.5, -0.5, 0.5}, torch::kDouble);
  const auto vectors = torch::stack({a, 2 * a, b}, 1) + 7;
  const auto [coordinates, shares] = main_directions(vectors);
  EXPECT_TRUE(torch::allclose(coordinates.select(1, 0), a * std::sqrt(5.0)));
  EXPECT_TRUE(torch::allclose(coordinates.select(1, 1), b));
  EXPECT_NEAR(shares[0].item<double>(), 100.0 / 101, 1e-9);
  EXPECT_NEAR(shares[1].item<double>(), 1.0 / 101, 1e-9);
}

TEST(MainDirections, OneDimensionAndEqualCodes) {
  const auto line = main_directions(torch::tensor({{1.0}, {2.0}, {4.0}}));
  EXPECT_EQ(line.coordinates.size(1), 2);
  EXPECT_EQ(line.coordinates.select(1, 1).abs().max().item<double>(), 0);
  const auto equal = main_directions(torch::ones({5, 3}));
  EXPECT_TRUE(equal.coordinates.isfinite().all().item<bool>());
  EXPECT_TRUE(equal.shares.isfinite().all().item<bool>());
}

class CodeMapOfRun : public ::testing::Test {
 protected:
  void SetUp() override { put_model(tiny_config()); }
  void put_model(const TokenizerConfig& config) {
    fs::create_directories(run_ / "checkpoints" / "step-5");
    write_model_file(run_ / "checkpoints" / "step-5" / "model.safetensors", config);
  }
  /// Images with their reconstructions below, as training writes them.
  void put_samples(const torch::Tensor& images, const std::string& name) {
    std::vector<std::vector<Image>> rows(2);
    for (int64_t i = 0; i < images.size(0); ++i) {
      rows[0].push_back(to_image(images[i]));
      rows[1].push_back(to_image(torch::zeros_like(images[i])));
    }
    fs::create_directories(run_ / "samples");
    write_image(run_ / "samples" / name, make_grid(rows));
  }

  TemporaryFolder folder_;
  fs::path run_ = folder_ / "run";
};

TEST_F(CodeMapOfRun, CoordinatesOfTheCodesAndTokensOfTheSamples) {
  // Values of 8 bits, like those of the picture.
  const auto images = torch::randint(0, 256, {3, 3, 16, 16}).div(127.5).sub(1);
  put_samples(torch::zeros({3, 3, 16, 16}), "epoch-0001.png");
  put_samples(images, "epoch-0004.png");
  const auto map = map_codes(run_);
  EXPECT_EQ(map.model, "step-5");
  EXPECT_EQ(map.codes, 32);
  EXPECT_EQ(map.code.size(), 32u);
  EXPECT_EQ(map.epoch, 4);
  EXPECT_GE(*std::min_element(map.x.begin(), map.x.end()), 0);
  EXPECT_LE(*std::max_element(map.y.begin(), map.y.end()), 1);
  EXPECT_GT(map.x_share, map.y_share);
  EXPECT_EQ(map.no_tokens, "");
  ASSERT_EQ(map.tokens.size(), 3u);
  InferenceSession session(run_, "cpu");
  const auto expected = session.encode(images);
  EXPECT_EQ(map.grid_height, expected.size(1));
  for (int64_t i = 0; i < 3; ++i) {
    const auto tokens = torch::tensor(at::ArrayRef<int64_t>(map.tokens[i]), torch::kLong);
    EXPECT_TRUE(torch::equal(tokens, expected[i].flatten())) << i;
  }
}

TEST_F(CodeMapOfRun, SaysWhyThereAreNoTokens) {
  EXPECT_EQ(map_codes(run_).no_tokens, "samples/ has no picture");
  fs::create_directories(run_ / "samples");
  write_image(run_ / "samples" / "epoch-0002.png", {7, 5, std::vector<uint8_t>(105)});
  const auto map = map_codes(run_);
  EXPECT_NE(map.no_tokens.find("epoch-0002.png: not images"), std::string::npos) << map.no_tokens;
  EXPECT_EQ(map.code.size(), 32u) << "the map is there all the same";
}

TEST_F(CodeMapOfRun, ABrokenPictureLeavesTheOneBefore) {
  put_samples(torch::zeros({3, 3, 16, 16}), "epoch-0001.png");
  write_text(run_ / "samples" / "epoch-0002.png", "torn");
  const auto map = map_codes(run_);
  EXPECT_EQ(map.no_tokens, "");
  EXPECT_EQ(map.epoch, 1);
  EXPECT_EQ(map.tokens.size(), 3u);
}

TEST_F(CodeMapOfRun, WithoutAModelOrWithoutTokens) {
  fs::remove_all(run_ / "checkpoints");
  EXPECT_THROW(map_codes(run_), UserError);
  auto config = tiny_config();
  config.quantizer.type = "none";
  put_model(config);
  EXPECT_THROW(map_codes(run_), UserError);
}

}  // namespace
}  // namespace nsvq
