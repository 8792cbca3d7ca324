// Draws of tokens, and the samplers against written-out loops over images and positions.

#include "nsvq/generation/sampling/token_sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <set>

#include "nsvq/core/device.h"
#include "nsvq/core/random.h"
#include "nsvq/generation/sampling/masked_sampling.h"
#include "nsvq/generation/sampling/token_sequence.h"
#include "nsvq/ops/transformer/draw_tokens_inference.h"
#include "tests/nn/golden.h"

namespace nsvq {
namespace {

using torch::Tensor;
using Row = std::vector<float>;

Row row_of(const Tensor& values) {
  const auto flat = values.to(at::kFloat).contiguous();
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}

Tensor seeds_of(const std::vector<int64_t>& seeds) { return at::tensor(seeds, at::kLong); }

TEST(NumberedSeeds, AreAHashOfSeedAndNumber) {
  const auto mix = [](uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  };
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15ULL;
  const std::vector<int64_t> seeds = {0, 1, -1, INT64_MIN, INT64_MAX, 1234567890123456789};
  const auto numbers = at::arange(5, at::kLong);
  const auto made = numbered_seeds(seeds_of(seeds).unsqueeze(1), numbers);
  std::set<int64_t> different;
  for (size_t i = 0; i < seeds.size(); ++i) {
    for (int64_t j = 0; j < 5; ++j) {
      const uint64_t expected = mix(mix(static_cast<uint64_t>(seeds[i]) + kGolden) +
                                    static_cast<uint64_t>(j + 1) * kGolden);
      const auto value = made[static_cast<int64_t>(i)][j].item<int64_t>();
      EXPECT_EQ(static_cast<uint64_t>(value), expected);
      different.insert(value);
    }
  }
  EXPECT_EQ(different.size(), 30u);
}

TEST(GumbelRows, DependOnTheirSeedAloneAndAreGumbel) {
  const auto seeds = numbered_seeds(seeds_of({3}), at::arange(200, at::kLong));
  const auto noise = gumbel_rows(seeds, 501);
  EXPECT_TRUE(at::isfinite(noise).all().item<bool>());
  EXPECT_NEAR(noise.mean().item<double>(), std::numbers::egamma, 0.02);
  EXPECT_NEAR(noise.std().item<double>(), std::numbers::pi / std::sqrt(6.0), 0.02);
  EXPECT_TRUE(at::equal(gumbel_rows(seeds.narrow(0, 7, 1), 501)[0], noise[7]));
}

/// Codes that top_k, then top_p leave, by sorting.
Row filtered_by_hand(Row logits, const SamplingConfig& sampling) {
  for (float& one : logits) one /= static_cast<float>(sampling.temperature);
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  auto kept = logits;
  const float least =
      sampling.top_k > 0 ? logits[order[static_cast<size_t>(sampling.top_k) - 1]] : -INFINITY;
  double sum = 0, before = 0;
  for (const size_t i : order) {
    if (logits[i] >= least) sum += std::exp(logits[i]);
  }
  for (const size_t i : order) {
    if (logits[i] < least || before > sampling.top_p) kept[i] = -INFINITY;
    before += std::exp(logits[i]) / sum;
  }
  return kept;
}

TEST(FilteredLogits, KeepWhatALoopKeeps) {
  auto logits = draw_golden("logits", {6, 33}, 4);
  logits[2][5] = logits[2][9];  // a tie
  logits[3].fill_(0.5);         // all tie
  logits[4][7] = 40;            // one code has all
  for (const auto& sampling :
       {SamplingConfig{.temperature = 0.7}, SamplingConfig{.top_k = 1}, SamplingConfig{.top_k = 5},
        SamplingConfig{.top_k = 33}, SamplingConfig{.top_p = 0.5}, SamplingConfig{.top_p = 0.01},
        SamplingConfig{.temperature = 1.3, .top_k = 9, .top_p = 0.8}}) {
    const auto filtered = filtered_logits(logits.clone(), sampling);
    for (int64_t i = 0; i < logits.size(0); ++i) {
      const auto expected = filtered_by_hand(row_of(logits[i]), sampling);
      EXPECT_EQ(row_of(filtered[i]), expected)
          << "row " << i << ", top_k " << sampling.top_k << ", top_p " << sampling.top_p;
    }
  }
}

TEST(DrawnCodes, AppearAsOftenAsTheirProbability) {
  const auto logits = at::tensor({0.0, 1.0, -2.0, 0.5, 0.0}, at::kFloat);
  constexpr int64_t kDraws = 20000;
  const auto drawn = drawn_codes(logits.expand({kDraws, -1}),
                                 numbered_seeds(seeds_of({11}), at::arange(kDraws, at::kLong)));
  const auto shares = at::bincount(drawn, {}, 5).to(at::kFloat) / static_cast<double>(kDraws);
  EXPECT_LT((shares - logits.softmax(0)).abs().max().item<double>(), 0.011);  // 3 deviations
}

void expect_kernels_of_sampling_on(c10::Device device) {
  const auto seeds = seeds_of({5, -7, int64_t{1} << 60}), counts = at::arange(300, at::kLong);
  const auto made = numbered_seeds(seeds.to(device).unsqueeze(1), counts.to(device));
  EXPECT_TRUE(at::equal(made.cpu(), numbered_seeds(seeds.unsqueeze(1), counts)));
  EXPECT_TRUE(at::equal(numbered_seeds(seeds.to(device), counts.to(device).narrow(0, 4, 1)).cpu(),
                        numbered_seeds(seeds.unsqueeze(1), counts).select(1, 4)));

  const auto rows = made.flatten();
  const SamplingConfig sampling{.guidance = 3, .temperature = 0.8};
  for (const int64_t codes : {1, 33, 4096}) {
    const auto both = draw_golden("both", {2 * rows.size(0), codes}, 3).to(device);
    const auto weight = at::full({1}, 3.0, both.options()),
               factor = at::full({1}, 1.3, both.options());
    const auto plain = drawn_codes(filtered_logits(guided(both, weight) * factor, sampling), rows);
    const auto ours = draw_tokens_inference(
        both, {.seeds = rows, .weight = weight, .factor = factor, .temperature = 0.8});
    EXPECT_TRUE(at::equal(plain, ours)) << codes;
  }
}

TEST(KernelsOfSampling, GiveWhatTheOperationsGive) { expect_kernels_of_sampling_on(at::kCPU); }

TEST(KernelsOfSampling, GiveWhatTheOperationsGiveOnAGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  expect_kernels_of_sampling_on(at::kCUDA);
}

/// bf16 sampling gives the same tokens in every run, with and without CUDA graphs.
TEST(KernelsOfSampling, TokensAreTheSameInEveryRun) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const SideStreamGuard stream(c10::Device(at::kCUDA, 0));
  for (const char* family : {"ar", "rar", "masked"}) {
    const GeneratorConfig config{
        .family = family, .width = 64, .depth = 2, .heads = 2, .hidden = 88};
    const GridShape grid{4, 4, 200, 10};
    const auto generator = make_generator(config, grid);
    fill_golden(*generator, "generator.");
    generator->to(at::kCUDA);
    generator->precision = Precision::bf16;
    cast_for_sampling(*generator);
    TokenRequest request{.labels = at::arange(7, at::kLong).to(at::kCUDA),
                         .seeds = (at::arange(7, at::kLong) * 31).to(at::kCUDA)};
    SamplingConfig sampling{.guidance = 2};
    const auto eager = generator->sample(request, sampling);
    EXPECT_TRUE(at::equal(generator->sample(request, sampling), eager)) << family;
    request.graphs = true;
    for (int run = 0; run < 3; ++run) {
      EXPECT_TRUE(at::equal(generator->sample(request, sampling), eager)) << family << run;
    }
    if (std::string(family) != "masked") continue;
    sampling.redraw = true;
    const auto redrawn = generator->sample(request, sampling);
    EXPECT_TRUE(at::equal(generator->sample(request, sampling), redrawn));
  }
}

TEST(GuidanceWeights, FollowTheirSchedules) {
  const auto weights = [](const char* schedule, double power) {
    return row_of(guidance_weights(
        {.guidance = 5, .guidance_schedule = schedule, .guidance_power = power}, 4, at::kCPU));
  };
  EXPECT_EQ(weights("constant", 1), (Row{5, 5, 5, 5}));
  EXPECT_EQ(weights("linear", 1), (Row{2, 3, 4, 5}));
  const auto cosine = weights("power-cosine", 2);
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(cosine[i], 4 * (1 - std::cos(std::numbers::pi * i * i / 16.0)) / 2 + 1, 1e-6);
  }
  EXPECT_TRUE(at::equal(guided(at::tensor({3.0, 1.0}), at::tensor({2.0})), at::tensor({5.0})));
}

TEST(HaltonOrder, VisitsEachCellOnceAsTheSequenceDoes) {
  // Bases 2 and 3: (1/2, 1/3), (1/4, 2/3), (3/4, 1/9), (1/8, 4/9), (5/8, 7/9), (3/8, 2/9), ...
  const auto order = halton_order(4, 3);
  ASSERT_EQ(order.size(), 12u);
  EXPECT_EQ(std::vector<int64_t>(order.begin(), order.begin() + 5),
            (std::vector<int64_t>{2 * 3 + 1, 1 * 3 + 2, 3 * 3 + 0, 0 * 3 + 1, 2 * 3 + 2}));
  for (const auto& [height, width] :
       {std::pair<int64_t, int64_t>{1, 1}, {16, 16}, {24, 24}, {5, 31}}) {
    auto cells = halton_order(height, width);
    std::sort(cells.begin(), cells.end());
    for (int64_t i = 0; i < height * width; ++i) ASSERT_EQ(cells.at(i), i);
  }
  const auto orders = halton_orders({4, 3, 2}, seeds_of({1, 2, 3, 4, 5}));
  for (int64_t i = 0; i < 5; ++i) {
    const auto start = std::find(order.begin(), order.end(), orders[i][0].item<int64_t>());
    for (int64_t j = 0; j < 12; ++j) {
      EXPECT_EQ(orders[i][j].item<int64_t>(), order[(start - order.begin() + j) % 12]);
    }
  }
}

TEST(ArccosCounts, GrowUpToAllTokens) {
  for (const auto& [positions, steps] :
       {std::pair<int64_t, int64_t>{256, 32}, {12, 12}, {12, 1}, {5, 4}}) {
    const auto counts = arccos_counts(positions, steps);
    ASSERT_EQ(std::ssize(counts), steps);
    EXPECT_EQ(counts.back(), positions);
    for (int64_t i = 0; i < steps; ++i) {
      EXPECT_GE(counts[i], i + 1);
      if (i > 0) EXPECT_GE(counts[i], counts[i - 1]);
    }
  }
  EXPECT_EQ(arccos_counts(256, 32)[15], 85);  // 1 - arccos(1/2) / (pi/2) = 1/3
}

/// Codes are drawn as often as the loss says. Numbers that are no codes count as the last one.
void expect_draws_by_losses(TokenHead& head, int64_t codes) {
  const torch::NoGradGuard no_grad;
  fill_golden(head, "head.");
  const auto hidden = draw_golden("hidden", {1, 8}, 2);
  auto shares = (-head.losses(hidden.expand({codes, -1}), at::arange(codes, at::kLong))).exp();
  EXPECT_GT(shares.max().item<double>(), 1.5 / static_cast<double>(codes));
  shares[codes - 1] += 1 - shares.sum();
  constexpr int64_t kDraws = 20000;
  const SamplingConfig sampling;
  TokenDraw how{numbered_seeds(seeds_of({2}), at::arange(kDraws, at::kLong)),
                {},
                {},
                sampling,
                /*with_chances=*/true};
  const auto drawn = head.draw(hidden.expand({kDraws, -1}), how);
  const auto found = at::bincount(drawn.tokens, {}, codes).to(at::kFloat) / double{kDraws};
  EXPECT_LT((found - shares).abs().max().item<double>(), 0.011);  // 3 deviations
  const auto some = drawn.tokens.narrow(0, 0, 50);
  const auto kept = some.lt(codes - 1);
  const auto losses = head.losses(hidden.expand({50, -1}), some);
  EXPECT_TRUE(at::allclose(drawn.chances.narrow(0, 0, 50).masked_select(kept),
                           losses.neg().masked_select(kept), 1e-4, 1e-4));
  how.weight = at::ones({1});  // c alone
  const auto other = draw_golden("other", {1, 8}, 2).expand({kDraws, -1});
  const auto guided_draw = head.draw(at::cat({hidden.expand({kDraws, -1}), other}), how);
  EXPECT_GT(guided_draw.tokens.eq(drawn.tokens).to(at::kFloat).mean().item<double>(), 0.999);
}

/// 11 codes are 3 x 4 parts, of which the last is none.
TEST(FactorisedHead, DrawsByTheProbabilitiesOfItsLoss) {
  const CodeSplit split(11);
  EXPECT_EQ(split.second_codes, 4);
  EXPECT_EQ(split.first_codes, 3);
  EXPECT_EQ(CodeSplit(int64_t{1} << 18).first_codes, 64);
  expect_draws_by_losses(*make_factorised_head(11, 8, 2, 1), 11);
}

TEST(BitsHead, DrawsByTheProbabilitiesOfItsLoss) {
  expect_draws_by_losses(*make_bits_head(11, 8), 11);
  expect_draws_by_losses(*make_bits_head(16, 8), 16);
}

TEST(BitsHead, OfAMillionCodesIsSmall) {
  int64_t numbers = 0;
  for (const auto& one : make_bits_head(int64_t{1} << 20, 768)->parameters())
    numbers += one.numel();
  for (const auto& one : make_bits_table(int64_t{1} << 20, 1, 768)->parameters()) {
    numbers += one.numel();
  }
  EXPECT_LT(numbers, 200'000);
}

TEST(BitsTable, HasAVectorForEachToken) {
  const torch::NoGradGuard no_grad;
  const auto table = make_bits_table(4, 1, 6);
  fill_golden(*table, "table.");
  const auto vectors = table->forward(at::arange(5, at::kLong));
  const auto rows = table->named_parameters()["weight"], bias = table->named_parameters()["bias"];
  EXPECT_TRUE(at::allclose(vectors[2], bias - rows[0] + rows[1]));
  EXPECT_TRUE(at::allclose(vectors[3], bias + rows[0] + rows[1]));
  EXPECT_TRUE(at::equal(vectors[4], table->named_parameters()["beyond.weight"][0]));
}

TEST(FactorisedTable, HasAVectorForEachToken) {
  const auto table = make_factorised_table(11, 2, 6);
  const torch::NoGradGuard no_grad;
  fill_golden(*table, "table.");
  const auto vectors = table->forward(at::arange(13, at::kLong));
  const auto distances = at::cdist(vectors, vectors) + 9 * at::eye(13);
  EXPECT_GT(distances.min().item<double>(), 0.01);
  const auto first = table->named_parameters()["first.weight"];
  const auto second = table->named_parameters()["second.weight"];
  EXPECT_TRUE(at::equal(vectors[6], first[1] + second[2]));
  EXPECT_TRUE(at::equal(vectors[12], first[4] + second[4]));
}

/// A made-up network: logits at a place depend on all tokens, on the place and on the label.
struct MadeUp {
  GridShape grid{3, 4, 5, 2};
  Tensor table = draw_golden("table", {6, 8}, 3), places = draw_golden("places", {12, 8}, 3);
  Tensor labels = draw_golden("labels", {3, 8}, 3);
  std::shared_ptr<TokenHead> head = make_full_head({.width = 8, .codes = 5, .outputs = 6});

  MadeUp() {
    const torch::NoGradGuard no_grad;
    head->named_parameters()["weight"].copy_(draw_golden("head", {6, 8}, 1));
  }

  Tensor all(const Tensor& tokens, const Tensor& told) const {
    const auto seen = at::embedding(table, tokens);
    const auto sums = seen.cumsum(1) - 0.5 * seen.sum(1, /*keepdim=*/true);
    return at::tanh(sums + places + at::embedding(labels, told).unsqueeze(1));
  }

  MaskedNetwork network() const {
    return {.hidden =
                [this](const Tensor& tokens, const Tensor& told, const Tensor& at_places) {
                  const auto hidden = all(tokens, told);
                  if (!at_places.defined()) return hidden;
                  return hidden.gather(1, at_places.unsqueeze(2).expand({-1, -1, 8}));
                },
            .head = *head,
            .grid = grid,
            .mask = 5,
            .precision = Precision::fp32};
  }

  /// Guided logits [12][5] of one image.
  Tensor logits(const Tensor& tokens, int64_t label, double weight) const {
    const auto weights = head->named_parameters()["weight"].detach();
    const auto one = [&](int64_t told) {
      return all(tokens.unsqueeze(0), seeds_of({told}))[0].matmul(weights.t()).narrow(1, 0, 5);
    };
    return one(2) + weight * (one(label) - one(2));
  }

  Tensor noise(int64_t seed, int64_t number, int64_t count) const {
    return gumbel_rows(numbered_seeds(seeds_of({seed}), seeds_of({number})), count)[0];
  }
};

struct MaskedImages {
  std::vector<int64_t> labels = {0, 1, 1, 0}, seeds = {5, -7, 123456789, 8};
  Tensor given = at::full({4, 12}, -1, at::kLong);

  MaskedImages() {
    given[1][3] = 4;
    given[1][11] = 0;
    given[2].copy_(at::arange(12).remainder(5));
    given[3].copy_(at::arange(12).remainder(5));
    given[3][6] = -1;
  }
  TokenRequest request() const { return {seeds_of(labels), seeds_of(seeds), given}; }
  Tensor start(int64_t image) const { return given[image].masked_fill(given[image].lt(0), 5); }
};

Tensor halton_by_hand(const MadeUp& made, const MaskedImages& images, int64_t image,
                      const SamplingConfig& sampling, int64_t steps) {
  const int64_t seed = images.seeds[image];
  const auto order = halton_orders(made.grid, seeds_of({seed}))[0];
  const auto counts = arccos_counts(12, steps);
  auto tokens = images.start(image);
  int64_t found = 0;
  for (int64_t step = 0; step < steps; ++step) {
    auto logits = made.logits(tokens, images.labels[image], sampling.guidance);
    if (sampling.first_temperature > 0) {
      const double done =
          steps == 1 ? 0 : static_cast<double>(step) / static_cast<double>(steps - 1);
      const double sharpness =
          (1 - done) / sampling.first_temperature + done / sampling.temperature;
      logits = logits * (sharpness * sampling.temperature);
    }
    for (found = sampling.redraw ? 0 : found; found < counts[step]; ++found) {
      const auto place = order[found].item<int64_t>();
      if (images.given[image][place].item<int64_t>() >= 0) continue;
      const auto noisy = filtered_logits(logits[place].unsqueeze(0), sampling)[0] +
                         made.noise(seed, step * 13 + place, 5);
      tokens[place] = noisy.argmax();
    }
  }
  return tokens;
}

Tensor confidence_by_hand(const MadeUp& made, const MaskedImages& images, int64_t image,
                          const SamplingConfig& sampling, int64_t steps) {
  const int64_t seed = images.seeds[image];
  auto tokens = images.start(image);
  const auto at_first = tokens.eq(5).sum().item<int64_t>();
  for (int64_t step = 0; step < steps; ++step) {
    const auto logits = made.logits(tokens, images.labels[image], sampling.guidance);
    const double done = static_cast<double>(step + 1) / static_cast<double>(steps);
    const auto noise = made.noise(seed, step * 13 + 12, 12);
    std::vector<std::pair<float, int64_t>> found;
    for (int64_t place = 0; place < 12; ++place) {
      if (tokens[place].item<int64_t>() != 5) continue;
      const auto scaled = logits[place] / sampling.temperature;
      const auto code = (filtered_logits(logits[place].unsqueeze(0), sampling)[0] +
                         made.noise(seed, step * 13 + place, 5))
                            .argmax();
      tokens[place] = code;
      const auto chance = scaled.log_softmax(0)[code];
      const auto heat = static_cast<float>(sampling.choice_temperature * (1 - done));
      found.emplace_back((chance + heat * noise[place]).item<float>(), place);
    }
    if (step + 1 == steps) break;
    const auto share = std::cos(std::numbers::pi / 2 * done);
    auto again = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(at_first) * share));
    again = std::min(again, std::ssize(found) - 1);
    std::sort(found.begin(), found.end());
    for (int64_t i = 0; i < again; ++i) tokens[found[i].second] = 5;
  }
  return tokens;
}

TEST(MaskedSampler, EqualsALoopOverImagesAndPositions) {
  const MadeUp made;
  const MaskedImages images;
  for (const auto& sampling :
       {SamplingConfig{}, SamplingConfig{.guidance = 2.5}, SamplingConfig{.order = "confidence"},
        SamplingConfig{.redraw = true},
        SamplingConfig{.guidance = 2,
        .temperature = 0.7,
        .first_temperature = 1.6,
        .top_k = 4,
        .redraw = true},
        SamplingConfig{.first_temperature = 0.5},
        SamplingConfig{.guidance = 3,
        .temperature = 0.8,
        .top_k = 3,
        .order = "confidence",
        .choice_temperature = 2}}) {
    for (const int64_t steps : {1, 3, 12}) {
      SCOPED_TRACE(fmt::format("{}, w {}, redraw {}, {} steps", sampling.order, sampling.guidance,
                               sampling.redraw, steps));
      const auto tokens = MaskedSampler().sample(made.network(), images.request(), sampling, steps);
      for (int64_t i = 0; i < 4; ++i) {
        const auto expected = sampling.order == "halton"
                                  ? halton_by_hand(made, images, i, sampling, steps)
                                  : confidence_by_hand(made, images, i, sampling, steps);
        EXPECT_TRUE(at::equal(tokens[i], expected)) << "image " << i << "\n"
                                                    << tokens[i] << expected;
        const auto kept = images.given[i].ge(0);
        EXPECT_TRUE(at::equal(tokens[i].masked_select(kept), images.given[i].masked_select(kept)));
        EXPECT_TRUE(tokens[i].ge(0).logical_and(tokens[i].lt(5)).all().item<bool>());
      }
    }
  }
}

/// A made-up causal network: the hidden state is a running mix of what was seen, kept in the cache.
TEST(TokenSequence, EqualsALoopOverImages) {
  const auto table = draw_golden("table", {7, 6}, 2), labels = draw_golden("labels", {3, 6}, 2);
  const auto head = make_full_head({.width = 6, .codes = 7, .outputs = 7});
  const auto weight = head->named_parameters()["weight"];
  {
    const torch::NoGradGuard no_grad;
    weight.copy_(draw_golden("head", {7, 6}));
  }
  const SequenceNetwork network{
      .begin =
          [&](const Tensor& told, KvCache& cache) {
            cache.keys = {at::embedding(labels, told)};
            return cache.keys[0];
          },
      .next =
          [&](const Tensor& tokens, const Tensor& number, const Tensor& /*told*/, KvCache& cache) {
            cache.keys[0] =
                at::tanh(0.5 * cache.keys[0] + at::embedding(table, tokens) + 0.1 * number);
            return cache.keys[0];
          },
      .head = *head,
      .prefix = 1,
      .tokens = 9,
      .classes = 2,
      .precision = Precision::fp32};
  const std::vector<int64_t> told = {1, 0, 1}, seeds = {4, 44, -4};
  TokenSequence sequence;
  for (const double guidance : {1.0, 4.0}) {
    const SamplingConfig sampling{.guidance = guidance,
                                  .guidance_schedule = "power-cosine",
                                  .guidance_power = 2,
                                  .temperature = 0.9,
                                  .top_p = 0.9};
    const auto tokens = sequence.sample(network, {seeds_of(told), seeds_of(seeds), {}}, sampling);
    const auto weights = guidance_weights(sampling, 9, at::kCPU);
    for (int64_t image = 0; image < 3; ++image) {
      auto own = labels[told[image]], none = labels[2];
      for (int64_t i = 0; i < 9; ++i) {
        if (i > 0) {
          const auto seen = table[tokens[image][i - 1].item<int64_t>()] + 0.1 * (i - 1);
          own = at::tanh(0.5 * own + seen);
          none = at::tanh(0.5 * none + seen);
        }
        const auto c = weight.detach().mv(own), u = weight.detach().mv(none);
        const auto logits = guidance == 1 ? c : u + weights[i] * (c - u);
        const auto noise =
            gumbel_rows(numbered_seeds(seeds_of({seeds[image]}), seeds_of({i})), 7)[0];
        const auto expected = (filtered_logits(logits.unsqueeze(0), sampling)[0] + noise).argmax();
        EXPECT_EQ(tokens[image][i].item<int64_t>(), expected.item<int64_t>())
            << "image " << image << " token " << i << " guidance " << guidance;
      }
    }
  }
}

}  // namespace
}  // namespace nsvq
