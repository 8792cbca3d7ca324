#include "nsvq/losses/augmentation.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <set>
#include <vector>

namespace nsvq {
namespace {

const auto kSeed = at::tensor(int64_t{17});

torch::Tensor photos(int64_t count = 64) {
  torch::manual_seed(3);
  return at::rand({count, 3, 16, 24}, at::kDouble) * 2 - 1;
}

torch::Tensor augmented(const torch::Tensor& images, const std::string& name,
                        Judged judged = Judged::images, int64_t first = 0) {
  return augmented(images, std::vector<std::string>{name}, kSeed, first, judged);
}

TEST(Augmentation, FlipSwapsLeftAndRightOfSome) {
  const auto images = photos(), found = augmented(images, "flip");
  int64_t flips = 0;
  for (int64_t i = 0; i < images.size(0); ++i) {
    const bool flipped = at::equal(found[i], images[i].flip(2));
    EXPECT_TRUE(flipped || at::equal(found[i], images[i]));
    flips += flipped;
  }
  EXPECT_GT(flips, 16);
  EXPECT_LT(flips, 48);
}

TEST(Augmentation, ShiftMovesByAnEighthAtMostAndLeavesZeros) {
  const auto images = photos(), found = augmented(images, "shift");
  std::set<std::pair<int64_t, int64_t>> seen;
  for (int64_t i = 0; i < images.size(0); ++i) {
    int64_t matches = 0;
    for (int64_t down = -2; down <= 2; ++down) {
      for (int64_t right = -3; right <= 3; ++right) {
        auto expected = at::zeros_like(images[i]);
        const auto part = [](torch::Tensor all, int64_t by, int64_t dim) {
          return all.narrow(dim, std::max<int64_t>(by, 0), all.size(dim) - std::abs(by));
        };
        part(part(expected, down, 1), right, 2).copy_(part(part(images[i], -down, 1), -right, 2));
        if (!at::equal(found[i], expected)) continue;
        ++matches;
        seen.insert({down, right});
      }
    }
    EXPECT_EQ(matches, 1) << i;
  }
  EXPECT_GT(seen.size(), 20u);  // of 35
}

TEST(Augmentation, CutoutClearsASquareOfHalfTheSide) {
  const auto images = photos(), found = augmented(images, "cutout");
  for (int64_t i = 0; i < images.size(0); ++i) {
    const auto cleared = found[i].eq(0).all(0);
    EXPECT_TRUE(at::equal(found[i], images[i].masked_fill(cleared, 0)));
    const auto rows = cleared.any(1), columns = cleared.any(0);
    // A rectangle, cut off at the border.
    EXPECT_TRUE(at::equal(cleared, at::logical_and(rows.unsqueeze(1), columns.unsqueeze(0))));
    const auto high = rows.sum().item<int64_t>(), wide = columns.sum().item<int64_t>();
    EXPECT_TRUE(high >= 4 && high <= 8 && wide >= 6 && wide <= 12) << high << " x " << wide;
  }
}

/// Brightness moves all by one number, saturation scales about each pixel's mean, contrast about
/// the image's: so the pixels' means and the colours change by factors.
TEST(Augmentation, ColourScalesWhatDiffersFromTheMeans) {
  const auto images = photos(), found = augmented(images, "colour");
  const auto parts = [](const torch::Tensor& all) {
    const auto grey = all.mean(1, true), mean = all.mean({1, 2, 3}, true);
    return std::vector{all - grey, grey - mean, mean};
  };
  const auto before = parts(images), after = parts(found);
  const auto factor = [&](int64_t part) {
    const auto ratio = (before[part] * after[part]).sum({1, 2, 3}, true) /
                       before[part].square().sum({1, 2, 3}, true);
    EXPECT_TRUE(at::allclose(after[part], before[part] * ratio, 1e-6, 1e-9)) << part;
    return ratio;
  };
  const auto colours = factor(0), contrast = factor(1), saturation = colours / contrast;
  const auto brightness = after[2] - before[2];
  const auto within = [](const torch::Tensor& values, double low, double high) {
    const double span = high - low;
    EXPECT_GE(values.min().item<double>(), low);
    EXPECT_LE(values.max().item<double>(), high);
    EXPECT_LT(values.min().item<double>(), low + span / 8);
    EXPECT_GT(values.max().item<double>(), high - span / 8);
  };
  within(saturation, 0, 2);
  within(contrast, 0.5, 1.5);
  within(brightness, -0.5, 0.5);
}

/// Twice: the R1 penalty differentiates what the first gradient gives.
TEST(Augmentation, GradientsPassThrough) {
  const auto images = photos(3).set_requires_grad(true);
  const auto weights = at::rand_like(images);
  const std::vector<std::string> all = {"flip", "colour", "shift", "cutout"};
  const auto loss = [&](const torch::Tensor& at) {
    return (nsvq::augmented(at, all, kSeed, 0, Judged::images) * weights).square().sum();
  };
  const auto gradient =
      torch::autograd::grad({loss(images)}, {images}, {}, {}, /*create_graph=*/true)[0];
  const auto direction = at::randn_like(images);
  const double step = 1e-5;
  const torch::NoGradGuard no_grad;
  const auto numeric =
      (loss(images + step * direction) - loss(images - step * direction)) / 2 / step;
  EXPECT_NEAR((gradient * direction).sum().item<double>(), numeric.item<double>(),
              1e-6 * std::abs(numeric.item<double>()));
  const at::AutoGradMode graph(true);
  const auto second = torch::autograd::grad({gradient.square().sum()}, {images})[0];
  EXPECT_GT(second.abs().sum().item<double>(), 0);
}

TEST(Augmentation, DrawsDependOnTheImagesNumberAlone) {
  const auto images = photos(8);
  for (const auto& name : augmentation_names()) {
    SCOPED_TRACE(name);
    const auto whole = augmented(images, name);
    const auto halves = at::cat({augmented(images.slice(0, 0, 4), name),
                                 augmented(images.slice(0, 4), name, Judged::images, 4)});
    EXPECT_TRUE(at::equal(whole, halves));
    if (name == "none") {
      EXPECT_TRUE(whole.is_same(images));
      continue;
    }
    EXPECT_FALSE(at::equal(whole, images));
    EXPECT_FALSE(at::equal(whole, augmented(images, name, Judged::reconstructions)));
    EXPECT_FALSE(at::equal(whole, augmented(images, name, Judged::by_generator)));
  }
}

}  // namespace
}  // namespace nsvq
