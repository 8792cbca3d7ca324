// What holds for every family of generators.

#include "nsvq/generation/generator.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>

#include <cmath>

#include "nsvq/core/random.h"
#include "nsvq/generation/sampling/token_sampling.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/nn/golden.h"

namespace nsvq {
namespace {

using torch::Tensor;

GeneratorConfig small_config(const std::string& family) {
  return {.family = family, .width = 16, .depth = 2, .heads = 2, .hidden = 24};
}

/// A generator whose weights follow from their names, so that its tokens are far from uniform.
std::shared_ptr<Generator> golden_generator(const std::string& family, const GridShape& grid,
                                            const std::string& head = "full") {
  auto config = small_config(family);
  config.head = head;
  const auto generator = make_generator(config, grid);
  fill_golden(*generator, "generator.");
  return generator;
}

Tensor numbers(const std::vector<int64_t>& values) { return at::tensor(values, at::kLong); }

Tensor done() { return at::ones({}, at::kFloat); }

std::vector<std::pair<std::string, std::string>> families_and_heads() {
  return {{"ar", "full"},       {"masked", "full"},       {"rar", "full"},
          {"ar", "factorised"}, {"masked", "factorised"}, {"rar", "factorised"},
          {"ar", "bits"},       {"masked", "bits"},       {"rar", "bits"}};
}

/// All grids of `positions` tokens of `codes` codes.
Tensor all_grids(int64_t codes, int64_t positions) {
  std::vector<Tensor> columns;
  int64_t count = 1;
  for (int64_t i = 0; i < positions; ++i) count *= codes;
  auto rest = at::arange(count, at::kLong);
  for (int64_t i = 0; i < positions; ++i) {
    columns.push_back(rest.remainder(codes));
    rest = rest.div(codes, "floor");
  }
  return at::stack(columns, 1);
}

/// By the chain rule the probabilities of all grids sum to one. The full head of a masked generator
/// has one logit more, of the mask, which takes a share.
TEST(Generators, ProbabilitiesOfAllGridsSumToOne) {
  const GridShape grid{1, 3, 4, 2};
  const auto tokens = all_grids(4, 3);
  const auto images = [&](int64_t label) {
    return TokenImages{tokens, at::full({64}, label, at::kLong), at::full({64}, 7, at::kLong),
                       done()};
  };
  for (const auto& [family, head] : families_and_heads()) {
    SCOPED_TRACE(family + " " + head);
    const auto generator = golden_generator(family, grid, head);
    const auto surprise = generator->surprise(images(1));
    const auto sum = (-3 * surprise).exp().sum().item<double>();
    if (family == "masked" && head == "full") {
      EXPECT_LT(sum, 1);
      EXPECT_GT(sum, 0);
    } else {
      EXPECT_NEAR(sum, 1, 1e-5);
    }
    if (family != "masked") {
      EXPECT_TRUE(at::allclose(surprise, generator->loss(images(1), /*training=*/false)));
    }
    EXPECT_FALSE(at::allclose(surprise, generator->surprise(images(0))));
  }
}

/// The last token that families draw one by one, by the loss of each code in its place: the loss
/// has seen all tokens at once, sampling one after another.
TEST(Generators, SampleTheLastTokenByTheLogitsOfTheLoss) {
  constexpr int64_t kCodes = 5;
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>{1, 1}, {1, 2}, {2, 3}, {3, 3}}) {
    const GridShape grid{height, width, kCodes, 2};
    const int64_t positions = grid.positions();
    for (const std::string family : {"ar", "rar"}) {
      SCOPED_TRACE(fmt::format("{} {}x{}", family, height, width));
      const auto generator = golden_generator(family, grid);
      const SamplingConfig sampling{.guidance = 2, .temperature = 0.9};
      const TokenRequest request{numbers({0, 1, 1, 0, 1}), numbers({3, 4, 5, 6, 7}), {}};
      const auto tokens = generator->sample(request, sampling);
      ASSERT_EQ(tokens.sizes(), (std::vector<int64_t>{5, positions}));
      const auto logits = [&](const Tensor& labels) {  // but for a constant of each image
        std::vector<Tensor> columns;
        for (int64_t code = 0; code < kCodes; ++code) {
          auto other = tokens.clone();
          other.select(1, positions - 1).fill_(code);
          columns.push_back(static_cast<double>(-positions) *
                            generator->surprise({other, labels, request.seeds, done()}));
        }
        return at::stack(columns, 1);
      };
      const auto c = logits(request.labels), u = logits(at::full_like(request.labels, 2));
      const auto expected =
          drawn_codes((u + 2 * (c - u)) / 0.9,
                      numbered_seeds(request.seeds, at::full({1}, positions - 1, at::kLong)));
      EXPECT_TRUE(at::equal(tokens.select(1, positions - 1), expected));
    }
  }
}

TEST(Generators, SamplesDependOnTheirSeedAndLabelAlone) {
  const GridShape grid{3, 3, 11, 3};
  for (const auto& [family, head] : families_and_heads()) {
    SCOPED_TRACE(family + " " + head);
    const auto generator = golden_generator(family, grid, head);
    const SamplingConfig sampling{.guidance = 1.5};
    const auto first =
        generator->sample({numbers({0, 1, 2, 0}), numbers({10, 11, 12, 13}), {}}, sampling);
    const auto other =
        generator->sample({numbers({2, 2, 0, 1}), numbers({12, 99, 10, 98}), {}}, sampling);
    EXPECT_TRUE(at::equal(first[0], other[2]));
    EXPECT_TRUE(at::equal(first[2], other[0]));
    EXPECT_FALSE(at::equal(first[0], first[3]));
    EXPECT_FALSE(at::equal(first[2], other[1]));
  }
}

TEST(Generators, LossOfAnImageDependsOnItAlone) {
  const GridShape grid{2, 3, 7, 4};
  for (const auto& kind : generator_kinds()) {
    auto config = small_config(kind.name);
    config.dropout = 0;
    const auto generator = make_generator(config, grid);
    fill_golden(*generator, "generator.");
    const auto tokens = draw_golden("tokens", {6, 6}).add(1).mul(3.5).to(at::kLong);
    const TokenImages all{tokens, numbers({0, 1, 2, 3, 0, 1}), at::arange(6, at::kLong),
                          at::full({}, 0.6, at::kFloat)};
    const TokenImages some{tokens.narrow(0, 2, 3), all.labels.narrow(0, 2, 3),
                           all.seeds.narrow(0, 2, 3), all.progress};
    const auto losses = generator->loss(all, /*training=*/true);
    EXPECT_TRUE(at::allclose(losses.narrow(0, 2, 3), generator->loss(some, /*training=*/true)))
        << kind.name;
  }
}

TEST(Generators, GivenTokensAreForThoseThatFillGaps) {
  const GridShape grid{2, 3, 7, 0};
  const auto given = at::full({2, 6}, -1, at::kLong);
  given[0][4] = 6;
  given[1][0] = 2;
  for (const auto& kind : generator_kinds()) {
    const auto generator = golden_generator(kind.name, grid);
    const TokenRequest request{{}, numbers({1, 2}), given};
    if (!kind.fills_gaps) {
      expect_contains(error_of([&] { generator->sample(request, {}); }),
                      {"generator.family", kind.name});
      continue;
    }
    for (const char* order : {"halton", "confidence"}) {
      const auto tokens = generator->sample(request, {.order = order});
      EXPECT_EQ(tokens[0][4].item<int64_t>(), 6);
      EXPECT_EQ(tokens[1][0].item<int64_t>(), 2);
    }
  }
}

TEST(Generators, SettingsThatContradictAreNamed) {
  const GridShape grid{4, 4, 100, 10};
  const auto refused = [&](const GeneratorConfig& config, const std::vector<std::string>& words) {
    expect_contains(error_of([&] { make_generator(config, grid); }), words);
  };
  refused({.family = "vae"}, {"generator.family"});
  refused({.family = "ar", .width = 30, .heads = 4}, {"generator.heads", "generator.width"});
  refused({.family = "ar", .width = 12, .heads = 2}, {"generator.width", "6", "multiple of 4"});
  refused({.family = "rar", .width = 30, .heads = 4}, {"generator.heads"});
  refused({.family = "masked", .width = 8, .heads = 9}, {"generator.heads"});
  refused({.family = "rar", .anneal_from = 0.8, .anneal_to = 0.8}, {"generator.anneal_to"});
  refused({.family = "ar", .dropout = 1}, {"generator.dropout"});
  refused({.family = "ar", .modulation = "shared"}, {"generator.modulation", "ar"});
  refused({.family = "ar", .head = "words"}, {"generator.head"});

  const auto unsampled = [&](const SamplingConfig& sampling, const GeneratorConfig& config,
                             const GridShape& of, const std::vector<std::string>& words) {
    expect_contains(error_of([&] { check_sampling(sampling, config, of); }), words);
  };
  const GeneratorConfig masked, ar{.family = "ar"}, unguided{.label_dropout = 0};
  unsampled({.guidance = 2}, unguided, grid, {"sampling.guidance", "generator.label_dropout"});
  unsampled({.guidance = 2}, masked, {4, 4, 100, 0}, {"sampling.guidance", "no classes"});
  unsampled({.steps = 17}, masked, grid, {"sampling.steps", "16"});
  unsampled({.steps = 4}, ar, grid, {"sampling.steps", "ar"});
  unsampled({.order = "confidence"}, ar, grid, {"sampling.order", "ar"});
  unsampled({.top_k = 101}, ar, grid, {"sampling.top_k", "100"});
  unsampled({.top_p = 0}, ar, grid, {"sampling.top_p"});
  unsampled({.temperature = 0}, ar, grid, {"sampling.temperature"});
  unsampled({.guidance_power = 2}, ar, grid, {"sampling.guidance_power"});
  unsampled({.redraw = true}, ar, grid, {"sampling.redraw", "ar"});
  unsampled({.order = "confidence", .redraw = true}, masked, grid, {"sampling.redraw", "halton"});
  unsampled({.first_temperature = 2}, ar, grid, {"sampling.first_temperature", "ar"});
  unsampled({.top_k = 5}, {.head = "bits"}, grid, {"sampling.top_k", "bits"});
  unsampled({.choice_temperature = 2}, masked, grid, {"sampling.choice_temperature"});
  unsampled({.guidance_schedule = "cosine"}, ar, grid, {"sampling.guidance_schedule"});
  EXPECT_EQ(sampling_steps({}, masked, grid), 16);
  EXPECT_EQ(sampling_steps({}, masked, {16, 16, 100}), 32);
  EXPECT_EQ(sampling_steps({.steps = 8}, masked, grid), 8);
  EXPECT_EQ(sampling_steps({}, ar, grid), 16);
}

/// Each code is followed, row by row, by one of three: of the next three with probability 0.6, 0.3
/// and 0.1.
struct MarkovChain {
  int64_t codes;
  GridShape grid;

  static constexpr double kShares[] = {0.6, 0.3, 0.1};

  int64_t successor(int64_t code, int64_t which) const { return (code * 3 + 1 + which) % codes; }

  /// Nats a token of whole grids: the first is uniform.
  double entropy() const {
    double step = 0;
    for (const double p : kShares) step -= p * std::log(p);
    const auto positions = static_cast<double>(grid.positions());
    return (std::log(static_cast<double>(codes)) + (positions - 1) * step) / positions;
  }

  Tensor draw(Random& random, int64_t images) const {
    auto tokens = at::empty({images, grid.positions()}, at::kLong);
    auto values = tokens.accessor<int64_t, 2>();
    for (int64_t i = 0; i < images; ++i) {
      values[i][0] = random.below(codes);
      for (int64_t j = 1; j < grid.positions(); ++j) {
        const double u = random.uniform();
        const int64_t which = u < kShares[0] ? 0 : u < kShares[0] + kShares[1] ? 1 : 2;
        values[i][j] = successor(values[i][j - 1], which);
      }
    }
    return tokens;
  }

  /// Shares of the three successors among pairs of neighbours, and of all else.
  std::vector<double> bigrams(const Tensor& tokens) const {
    const auto before = tokens.slice(1, 0, -1), after = tokens.slice(1, 1);
    std::vector<double> shares;
    double rest = 1;
    for (int64_t which = 0; which < 3; ++which) {
      const auto expected = (before * 3 + 1 + which).remainder(codes);
      shares.push_back(after.eq(expected).to(at::kDouble).mean().item<double>());
      rest -= shares.back();
    }
    shares.push_back(rest);
    return shares;
  }
};

struct MarkovRun {
  GeneratorConfig config;
  int64_t steps;
  double lr;
  int64_t batch = 64;
};

std::shared_ptr<Generator> trained_on(const MarkovChain& chain, const MarkovRun& run) {
  torch::manual_seed(1);
  const auto generator = make_generator(run.config, chain.grid);
  torch::optim::AdamW optimizer(generator->parameters(),
                                torch::optim::AdamWOptions(run.lr).weight_decay(0));
  Random random(5);
  for (int64_t step = 0; step < run.steps; ++step) {
    const double progress = static_cast<double>(step) / static_cast<double>(run.steps);
    const double lr =
        run.lr * std::min({1.0, static_cast<double>(step + 1) / 20, 2 * (1 - progress)});
    for (auto& group : optimizer.param_groups()) group.options().set_lr(lr);
    std::vector<int64_t> seeds;
    for (int64_t i = 0; i < run.batch; ++i) seeds.push_back(static_cast<int64_t>(random.next()));
    optimizer.zero_grad();
    generator
        ->loss(
            {chain.draw(random, run.batch), {}, numbers(seeds), at::full({}, progress, at::kFloat)},
            /*training=*/true)
        .mean()
        .backward();
    torch::nn::utils::clip_grad_norm_(generator->parameters(), 1);
    optimizer.step();
  }
  return generator;
}

/// `gap`: how far the mean surprise may be above the entropy; of bigrams: how far shares may be
/// off.
void expect_learnt(const MarkovChain& chain, const MarkovRun& run, double gap, double off) {
  SCOPED_TRACE(run.config.family);
  const auto generator = trained_on(chain, run);
  Random random(77);
  constexpr int64_t kImages = 512;
  const auto tokens = chain.draw(random, kImages);
  const auto seeds = at::arange(kImages, at::kLong);
  const auto surprise = generator->surprise({tokens, {}, seeds, done()}).mean().item<double>();
  // These images have an entropy of their own, which differs from that of the chain by chance.
  double own = 0;
  const auto shares = chain.bigrams(tokens);
  for (size_t i = 0; i < 3; ++i) own -= shares[i] * std::log(MarkovChain::kShares[i]);
  const auto positions = static_cast<double>(chain.grid.positions());
  own = (std::log(static_cast<double>(chain.codes)) + (positions - 1) * own) / positions;
  EXPECT_NEAR(own, chain.entropy(), 0.05 * own);
  EXPECT_GT(surprise, own * 0.99);
  EXPECT_LT(surprise, own * (1 + gap));

  const bool in_steps = generator_kind(run.config.family).steps != nullptr;
  const auto sampled =
      generator->sample({{}, seeds, {}}, {.steps = in_steps ? chain.grid.positions() : 0});
  const auto made = chain.bigrams(sampled);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(made[i], i < 3 ? MarkovChain::kShares[i] : 0, off) << "successor " << i;
  }
  if (!in_steps) return;
  // Tokens of one step do not see each other: the gap is shown, not bounded.
  const int64_t fewer = chain.grid.positions() / 2;
  const auto hasty = chain.bigrams(generator->sample({{}, seeds, {}}, {.steps = fewer}));
  fmt::print("{} steps for {} tokens: successors {:.3f}, {:.3f}, {:.3f}, no successor {:.3f}\n",
             fewer, chain.grid.positions(), hasty[0], hasty[1], hasty[2], hasty[3]);
}

TEST(MarkovChain, OfFewCodesIsLearnt) {
  const MarkovChain chain{5, {1, 5, 5}};
  GeneratorConfig config{.width = 16, .depth = 1, .heads = 2, .hidden = 32, .dropout = 0};
  config.anneal_from = 0.1;
  config.anneal_to = 0.3;
  for (const char* family : {"ar", "rar"}) {
    config.family = family;
    expect_learnt(chain, {config, 150, 1e-2}, 0.02, 0.05);
  }
}

TEST(MarkovChain, OfFewCodesIsLearntMasked) {
  const MarkovChain chain{3, {1, 4, 3}};
  const GeneratorConfig config{
      .family = "masked", .width = 16, .depth = 1, .heads = 2, .hidden = 32, .dropout = 0};
  expect_learnt(chain, {config, 240, 1e-2}, 0.02, 0.05);
}

/// Minutes: see tests/slow.txt.
TEST(MarkovChain, Of64CodesIsLearntToItsEntropy) {
  const MarkovChain chain{64, {4, 4, 64}};
  GeneratorConfig config{.width = 64, .depth = 1, .heads = 2, .hidden = 128, .dropout = 0};
  config.anneal_from = 0.1;
  config.anneal_to = 0.3;
  config.family = "ar";
  expect_learnt(chain, {config, 900, 1e-2, 128}, 0.01, 0.03);
  config.family = "rar";
  expect_learnt(chain, {config, 900, 1e-2, 128}, 0.01, 0.03);
}

}  // namespace
}  // namespace nsvq
