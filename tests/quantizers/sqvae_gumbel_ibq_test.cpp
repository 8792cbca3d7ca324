// Quantizers that choose codes by a softmax: sqvae, gumbel, ibq.

#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "nsvq/ops/code_search/code_search_reference.h"
#include "nsvq/ops/random/seeded_random.h"
#include "nsvq/quantizers/codebook.h"
#include "nsvq/quantizers/members.h"
#include "nsvq/quantizers/members/softmax_codes.h"
#include "tests/quantizers/golden.h"
#include "tests/quantizers/members.h"

namespace nsvq {
namespace {

torch::Tensor step_number(int64_t step) { return at::scalar_tensor(step, at::kLong); }

// soft_choices.py computed these in PyTorch with autograd.
TEST(SoftChoices, LossesAndGradientsEqualPyTorchs) {
  const auto cases = golden("soft_choices");
  ASSERT_EQ(cases.size(), 6u);
  for (const auto& expected : cases) {
    const auto shape = expected.at("shape").get<std::vector<int64_t>>();
    QuantizerConfig config;
    config.type = expected.at("type");
    config.codes = expected.at("codes");
    const auto quantizer = make_quantizer(config, shape[1]);
    fill_tensors(*quantizer, expected.at("tensors"), 0.6, 1.7);
    const auto latents = formula(shape, 0.8, 0.1).requires_grad_();
    const QuantizerStep step = {.commitment = expected.at("commitment"),
                                .extra_codebook_terms = expected.at("neighbours"),
                                .step = step_number(expected.at("number"))};
    SCOPED_TRACE(fmt::format("{} at step {}", config.type, step.step.item<int64_t>()));
    const auto result = quantizer->quantize(latents, step);
    (result.loss + (result.latents * formula(shape, 1, 2.9)).sum()).backward();
    EXPECT_NEAR(result.loss.item<double>(), expected.at("loss").get<double>(), 1e-9);
    expect_near(result.indices.to(at::kDouble), expected.at("indices"));
    const auto gradient_of = [](const torch::Tensor& tensor) {
      return tensor.grad().defined() ? tensor.grad() : at::zeros_like(tensor);
    };
    expect_near(gradient_of(latents), expected.at("latent_gradient"));
    for (const auto& item : quantizer->named_parameters()) {
      SCOPED_TRACE(item.key());
      expect_near(gradient_of(item.value()), expected.at("gradients").at(item.key()));
    }
  }
}

struct Gradients {
  Quantized result;
  std::vector<torch::Tensor> values;  ///< of the latents, then of the parameters in order
};

/// In fp64, of the loss and of a weighted sum of what the decoder is given.
template <typename Call>
Gradients gradients_of(const std::shared_ptr<Quantizer>& quantizer, const torch::Tensor& latents,
                       const Call& call) {
  const auto z = latents.to(at::kDouble).requires_grad_();
  auto inputs = quantizer->parameters();
  inputs.insert(inputs.begin(), z);
  const auto result = call(z);
  const auto total = result.loss + (result.latents * formula(z.sizes(), 1, 2.9)).sum();
  return {result, torch::autograd::grad({total}, inputs)};
}

void expect_equal_gradients(const Gradients& ours, const Gradients& plain) {
  EXPECT_TRUE(at::equal(ours.result.indices, plain.result.indices));
  EXPECT_TRUE(at::allclose(ours.result.latents, plain.result.latents, 1e-12, 1e-12));
  EXPECT_NEAR(ours.result.loss.item<double>(), plain.result.loss.item<double>(), 1e-9);
  ASSERT_EQ(ours.values.size(), plain.values.size());
  for (size_t i = 0; i < ours.values.size(); ++i) {
    EXPECT_TRUE(at::allclose(ours.values[i], plain.values[i], 1e-10, 1e-10)) << i;
  }
}

constexpr uint64_t kSeed = 11;

/// The noise of logits [n, K] from row `first` on.
torch::Tensor noise_of(const torch::Tensor& logits, int64_t first = 0) {
  return gumbel_values(seed_of(kSeed), first * logits.size(1), logits.numel()).view_as(logits);
}

TEST(Sqvae, TrainingTakesTheGumbelSoftmaxMean) {
  auto one = member("sqvae");
  one.config.of<SqvaeConfig>() = {.variance = 1.3, .anneal = 1e-3};
  const auto quantizer = make(one);
  quantizer->to(at::kDouble);
  const QuantizerStep step = {.step = step_number(700), .seed = seed_of(kSeed)};
  const auto ours = gradients_of(quantizer, latents_for(one),
                                 [&](const auto& z) { return quantizer->quantize(z, step); });
  const auto plain = gradients_of(quantizer, latents_for(one), [&](const torch::Tensor& z) {
    const auto codebook = quantizer->named_parameters()["codebook"];
    const auto variance = 1 + quantizer->named_parameters()["log_variance"].exp();
    EXPECT_NEAR(variance.template item<double>(), 1.3, 1e-6);
    const auto flat = flatten_latents(z);
    const auto logits = squared_distances(flat, codebook) / (-2 * variance);
    const auto noisy = logits + noise_of(logits);
    const auto codes = at::softmax(noisy / std::exp(-0.7), 1).matmul(codebook);
    Quantized result;
    result.indices = to_grid(noisy.argmax(1), z);
    result.latents = to_nchw(codes, z);
    result.loss = ((at::softmax(logits, 1) * at::log_softmax(logits, 1)).sum() +
                   (flat - codes).square().sum() / (2 * variance)) /
                  static_cast<double>(z.size(0));
    return result;
  });
  expect_equal_gradients(ours, plain);
}

TEST(Sqvae, EvaluationTakesTheNearestCode) {
  const auto one = member("sqvae");
  const auto quantizer = make(one);
  const auto nearest =
      nearest_codes_reference(flatten_latents(latents_for(one)), quantizer->codebook());
  EXPECT_TRUE(at::equal(quantizer->encode(latents_for(one)).flatten(), nearest));
}

double temperature_at(const GumbelConfig& config, int64_t step) {
  return gumbel_temperature(config, step_number(step).to(at::kDouble)).item<double>();
}

TEST(Gumbel, TrainingDrawsACodeStraightThrough) {
  auto one = member("gumbel");
  one.config.of<GumbelConfig>() = {};
  const auto quantizer = make(one);
  quantizer->to(at::kDouble);
  const QuantizerStep step = {.step = step_number(250000), .seed = seed_of(kSeed)};
  const auto ours = gradients_of(quantizer, latents_for(one),
                                 [&](const auto& z) { return quantizer->quantize(z, step); });
  const auto plain = gradients_of(quantizer, latents_for(one), [&](const torch::Tensor& z) {
    const auto all = quantizer->named_parameters();
    const auto logits =
        flatten_latents(z).matmul(all["projection.weight"].t()) + all["projection.bias"];
    const auto noisy = logits + noise_of(logits);
    const auto soft = at::softmax(noisy / temperature_at({}, 250000), 1);
    const auto indices = noisy.argmax(1);
    const auto hard = at::one_hot(indices, 37).to(at::kDouble);
    const auto shares = at::softmax(logits, 1);
    Quantized result;
    result.indices = to_grid(indices, z);
    result.latents = to_nchw((hard - soft.detach() + soft).matmul(all["codebook"]), z);
    result.loss = 5e-4 * (shares * (shares * 37 + 1e-10).log()).sum(1).mean();
    return result;
  });
  expect_equal_gradients(ours, plain);
  const auto again = latents_for(one).to(at::kDouble);
  const auto other =
      quantizer->quantize(again, {.step = step_number(250000), .seed = seed_of(kSeed + 1)});
  EXPECT_FALSE(at::equal(other.indices, ours.result.indices));
}

TEST(Gumbel, TemperatureFollowsACosine) {
  const GumbelConfig config;
  EXPECT_DOUBLE_EQ(temperature_at(config, 0), 0.9);
  EXPECT_NEAR(temperature_at(config, 500000), (0.9 + 1e-6) / 2, 1e-12);
  EXPECT_NEAR(temperature_at(config, 1000000), 1e-6, 1e-15);
  EXPECT_NEAR(temperature_at(config, 5000000), 1e-6, 1e-15);
}

TEST(Gumbel, HasNoCodebookToReplace) {
  const auto quantizer = make(member("gumbel"));
  EXPECT_FALSE(quantizer->codebook().defined());
  EXPECT_FALSE(quantizer->code_vectors().defined());
}

TEST(SoftmaxCodes, DrawsFollowTheSoftmax) {
  constexpr int64_t n = 40000;
  const auto offsets = at::tensor({0.0, 1.0, -1.0, 0.5}, at::kDouble);
  const auto codes = at::eye(4, at::kDouble);
  const auto drawn = winning_codes(at::zeros({n, 4}, at::kDouble), {codes, offsets}, codes,
                                   {at::ones({}), seed_of(5)});
  const auto shares = at::softmax(offsets, 0);
  const auto found = drawn.codes.mean(0);
  for (int64_t i = 0; i < 4; ++i) {
    const double p = shares[i].item<double>();
    EXPECT_NEAR(found[i].item<double>(), p, 5 * std::sqrt(p * (1 - p) / n));
  }
}

/// More rows than are held at a time: every chunk has noise of its own, and backward meets the
/// noise of forward.
TEST(SoftmaxCodes, BackwardDrawsTheNoiseOfForward) {
  torch::manual_seed(6);
  constexpr int64_t codes = 65536, chunk = 512;
  const auto weights = at::randn({codes, 2}), codebook = at::randn({codes, 2});
  const auto offsets = at::zeros({codes});
  const auto latents = at::randn({chunk + 3, 2}).requires_grad_();
  const auto drawn =
      winning_codes(latents, {weights, offsets}, codebook, {at::full({}, 0.7), seed_of(kSeed)});
  drawn.codes.sum().backward();

  const auto tail = latents.detach().slice(0, chunk).requires_grad_();
  const auto logits = at::addmm(offsets, tail, weights.t());
  const auto noisy = logits + noise_of(logits, chunk);
  EXPECT_TRUE(at::equal(drawn.indices.slice(0, chunk), noisy.argmax(1)));
  at::softmax(noisy / 0.7, 1).matmul(codebook).sum().backward();
  EXPECT_TRUE(at::allclose(latents.grad().slice(0, chunk), tail.grad(), 1e-4, 1e-5));
}

TEST(SoftmaxCodes, WinnersAreCodesBitForBit) {
  torch::manual_seed(7);
  const auto codebook = at::randn({33, 5}).requires_grad_();
  const auto latents = at::randn({50, 5}).requires_grad_();
  const auto chosen =
      winning_codes(latents, {codebook, at::zeros({33})}, codebook, {at::ones({}), {}});
  EXPECT_TRUE(at::equal(chosen.codes, codebook.index_select(0, chosen.indices)));
  EXPECT_TRUE(at::equal(chosen.indices, largest_logits(latents, {codebook, at::zeros({33})})));
}

TEST(Ibq, EveryCodeHasAGradient) {
  const auto one = member("ibq");
  const auto quantizer = make(one);
  const auto result = quantizer->quantize(latents_for(one), {.extra_codebook_terms = false});
  EXPECT_FALSE(result.terms.contains("entropy"));
  result.latents.square().sum().backward();
  EXPECT_GT(quantizer->codebook().grad().abs().sum(1).min().item<double>(), 0);
}

TEST(Ibq, ChoosesTheLargestProduct) {
  const auto one = member("ibq");
  const auto quantizer = make(one);
  const auto products = flatten_latents(latents_for(one)).matmul(quantizer->codebook().t());
  EXPECT_TRUE(at::equal(quantizer->encode(latents_for(one)).flatten(), products.argmax(1)));
}

}  // namespace
}  // namespace nsvq
