#include "nsvq/quantizers/neighbour_loss.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "nsvq/core/device.h"
#include "nsvq/nn/named_tensors.h"
#include "nsvq/ops/code_search/code_search_reference.h"
#include "nsvq/quantizers/codebook.h"
#include "tests/quantizers/members.h"
#include "tests/two_ranks.h"

namespace nsvq {
namespace {

constexpr std::array kTypes = {"nsvq", "simvq_ns"};

struct Fit {
  Quantized result;
  torch::Tensor gradient;  ///< of all parameters, in one vector
};

Fit fit(Quantizer& quantizer, const torch::Tensor& latents) {
  quantizer.zero_grad();
  Fit out{quantizer.quantize(latents, {}), {}};
  out.result.loss.backward();
  std::vector<torch::Tensor> gradients;
  for (const auto& parameter : quantizer.parameters()) {
    gradients.push_back(parameter.grad().flatten());
  }
  out.gradient = at::cat(gradients);
  return out;
}

double ns_of(const Fit& fit) { return fit.result.terms.at("ns").item<double>(); }

double mean_distance(Quantizer& quantizer, const torch::Tensor& latents,
                     const torch::Tensor& indices) {
  const auto codes = codes_of(quantizer.code_vectors(), indices.flatten());
  return (flatten_latents(latents) - codes).square().sum(1).mean().item<double>();
}

void update(Quantizer& quantizer, const torch::Tensor& latents, Group& group) {
  const auto indices = quantizer.encode(latents).flatten();
  quantizer.update_statistics({flatten_latents(latents), indices, seed_of(0), group});
}

TEST(TauOfNearest, IsAMultipleOfTheRunningMeanDistance) {
  const auto group = make_single_group();
  for (const std::string type : kTypes) {
    for (const std::string operators : {"streaming", "plain"}) {
      SCOPED_TRACE(type + " " + operators);
      auto one = member(type);
      one.config.operators = operators;
      const auto z = latents_for(one), other = 2 * z;
      auto relative = one;
      relative.config.tau_of_nearest = 0.7;
      const auto quantizer = make(relative);
      // No distances are known yet.
      EXPECT_NEAR(ns_of(fit(*quantizer, z)), ns_of(fit(*make(one), z)), 1e-5);

      update(*quantizer, z, *group);
      double mean = mean_distance(*quantizer, z, quantizer->encode(z));
      const auto statistics = quantizer->statistics();
      ASSERT_EQ(statistics.size(), 1u);
      EXPECT_NEAR(statistics[0].item<double>(), mean, 1e-5);
      update(*quantizer, other, *group);
      mean += 0.1 * (mean_distance(*quantizer, other, quantizer->encode(other)) - mean);
      EXPECT_NEAR(statistics[0].item<double>(), mean, 1e-5);

      one.config.tau = 0.7 * mean;
      const auto expected = fit(*make(one), z), found = fit(*quantizer, z);
      EXPECT_TRUE(at::equal(found.result.indices, expected.result.indices));
      EXPECT_NEAR(ns_of(found), ns_of(expected), 1e-5);
      EXPECT_TRUE(at::allclose(found.gradient, expected.gradient, 1e-4, 1e-6));
    }
  }
}

TEST(TauOfNearest, ScalesWithTheLatents) {
  const auto group = make_single_group();
  auto one = member("nsvq");
  one.config.tau_of_nearest = 0.5;
  const auto ratio_at = [&](double scale) {
    const auto quantizer = make(one);
    const torch::Tensor z = latents_for(one) * scale;
    {
      const torch::NoGradGuard no_grad;
      quantizer->codebook().mul_(scale);
    }
    update(*quantizer, z, *group);
    const auto terms = quantizer->quantize(z, {}).terms;
    return (terms.at("ns") / terms.at("embedding")).item<double>();
  };
  EXPECT_NEAR(ratio_at(1), ratio_at(100), 1e-4);
}

TEST(TauOfNearest, IsStateOnlyWhereItIsAskedFor) {
  for (const std::string type : kTypes) {
    auto one = member(type);
    const auto off = make(one);
    EXPECT_FALSE(off->named_buffers().contains("nearest_distance"));
    EXPECT_TRUE(off->statistics().empty());
    const auto group = make_single_group();
    update(*off, latents_for(one), *group);

    one.config.tau_of_nearest = 3;
    const auto before = make(one), after = make(one);
    update(*before, latents_for(one), *group);
    load_tensors(*after, named_tensors(*before), "a checkpoint");
    const auto a = fit(*before, latents_for(one)), b = fit(*after, latents_for(one));
    EXPECT_TRUE(at::equal(a.result.loss, b.result.loss));
    EXPECT_TRUE(at::equal(a.gradient, b.gradient));
  }
}

TEST(TauOfNearest, KeepsItsMeanWhereAStepHasNone) {
  const auto group = make_single_group();
  auto one = member("nsvq");
  one.config.tau_of_nearest = 1;
  const auto z = flatten_latents(latents_for(one));
  const auto quantizer = make(one);
  const auto nearest = quantizer->statistics().front();
  const auto zeros = at::zeros({z.size(0)}, at::kLong);
  const auto expect_kept = [&](const torch::Tensor& latents, const torch::Tensor& indices) {
    const auto before = nearest.clone();
    quantizer->update_statistics({latents, indices, seed_of(0), *group});
    EXPECT_TRUE(at::equal(nearest, before));
  };
  for (int round = 0; round < 2; ++round) {  // before the first distance and after it
    expect_kept(at::full_like(z, NAN), zeros);
    expect_kept(at::full_like(z, INFINITY), zeros);
    expect_kept(z.slice(0, 0, 0), zeros.slice(0, 0, 0));
    quantizer->update_statistics({z, zeros, seed_of(0), *group});
    EXPECT_GT(nearest.item<double>(), 0);
  }
}

TEST(TauOfNearest, StaysWithinBounds) {
  for (const std::string type : kTypes) {
    for (const std::string kernel : {"softmax", "gaussian"}) {
      for (const double distance : {1e-40, 1e-30, 1e37}) {
        SCOPED_TRACE(type + " " + kernel);
        auto one = member(type);
        one.config.tau_of_nearest = 3;
        one.config.kernel = kernel;
        const auto quantizer = make(one);
        quantizer->statistics().front().fill_(distance);
        const auto found = fit(*quantizer, latents_for(one));
        EXPECT_TRUE(std::isfinite(found.result.loss.item<double>())) << distance;
        EXPECT_TRUE(at::isfinite(found.gradient).all().item<bool>()) << distance;
      }
    }
  }
}

TEST(TauOfNearest, IsTheSameOnAllRanks) {
  auto one = member("nsvq");
  one.config.tau_of_nearest = 1;
  const auto z = latents_for(one, 4);
  const auto alone = make(one);
  const auto group = make_single_group();
  update(*alone, z, *group);
  const std::array quantizers = {make(one), make(one)};
  on_two_ranks(
      [&](int rank, Group& both) { update(*quantizers[rank], z.narrow(0, 2 * rank, 2), both); });
  EXPECT_TRUE(at::equal(quantizers[0]->statistics()[0], quantizers[1]->statistics()[0]));
  EXPECT_NEAR(quantizers[0]->statistics()[0].item<double>(), alone->statistics()[0].item<double>(),
              1e-5);
}

TEST(AlphaRelative, IsTheShareOfTheEmbeddingTermsGradient) {
  for (const std::string kernel : {"softmax", "gaussian"}) {
    for (const double scale : {1.0, 30.0}) {  // of latents and codes
      SCOPED_TRACE(kernel);
      auto one = member("nsvq");
      one.config.kernel = kernel;
      one.config.tau = 0.2 * scale * scale;
      const torch::Tensor z = latents_for(one) * scale;
      const auto gradient = [&](double alpha, bool relative) {
        one.config.alpha = alpha;
        one.config.alpha_relative = relative;
        const auto quantizer = make(one);
        const torch::NoGradGuard no_grad;
        quantizer->codebook().mul_(scale);
        const at::AutoGradMode with_gradients(true);
        return fit(*quantizer, z);
      };
      const auto embedding = gradient(0, true), with = gradient(0.3, true);
      const auto added = (with.gradient - embedding.gradient).norm().item<double>();
      EXPECT_NEAR(added / embedding.gradient.norm().item<double>(), 0.3, 1e-3);
      // Its direction is that of the plain loss.
      const auto plain = gradient(1, false).gradient - embedding.gradient;
      const auto weight = with.result.terms.at("ns_weight").item<double>();
      EXPECT_NEAR((plain * weight).norm().item<double>(), added, 1e-3 * added);
    }
  }
}

TEST(AlphaRelative, WeighsWhatTrainsAMapOfCodes) {
  auto one = member("simvq_ns");
  const auto z = latents_for(one);
  const auto gradient = [&](double alpha, bool relative) {
    one.config.alpha = alpha;
    one.config.alpha_relative = relative;
    return fit(*make(one), z);
  };
  const auto embedding = gradient(0, false), plain = gradient(1, false), with = gradient(0.3, true);
  const auto weight = with.result.terms.at("ns_weight");
  EXPECT_TRUE(at::allclose(with.gradient - embedding.gradient,
                           (plain.gradient - embedding.gradient) * weight, 1e-3, 1e-6));
  // By the gradients for the codes, that of the embedding term by its formula.
  const auto quantizer = make(one);
  const auto flat = flatten_latents(z), codes = quantizer->code_vectors();
  const auto indices = with.result.indices.flatten();
  const auto pull = (codes_of(codes, indices) - flat) * (2.0 / static_cast<double>(z.numel()));
  const auto of_embedding = at::zeros_like(codes).index_add_(0, indices, pull);
  const auto leaf = codes.clone().requires_grad_();
  ns_loss_reference(flat, leaf, indices, one.config.tau).backward();
  EXPECT_NEAR(weight.item<double>(),
              (0.3 * of_embedding.norm() / leaf.grad().norm()).item<double>(),
              1e-3 * weight.item<double>());
}

TEST(AlphaRelative, ALossWithoutNeighboursIsNotAmplifiedWithoutBound) {
  auto one = member("nsvq");
  one.config.alpha_relative = true;
  one.config.tau = 1e-6;  // one-hot: no other code has a share
  const auto found = fit(*make(one), latents_for(one));
  EXPECT_TRUE(at::isfinite(found.gradient).all().item<bool>());
  EXPECT_LE(found.result.terms.at("ns_weight").item<double>(), 0.1 * 1.001e6);
}

TEST(AlphaRelative, WithoutGradientsItIsAWeight) {
  auto one = member("nsvq");
  one.config.alpha_relative = true;
  const torch::NoGradGuard no_grad;
  EXPECT_FALSE(make(one)->quantize(latents_for(one), {}).terms.count("ns_weight"));
}

/// Loss and gradient by autograd of the whole matrix.
std::pair<torch::Tensor, torch::Tensor> gaussian_reference(const torch::Tensor& latents,
                                                           const torch::Tensor& codes,
                                                           const torch::Tensor& indices,
                                                           double tau) {
  const auto leaf = codes.detach().clone().requires_grad_();
  const auto distances = (latents.unsqueeze(1) - leaf.unsqueeze(0)).square().sum(2);
  const auto weights = (-distances.detach() / tau).exp().scatter(1, indices.unsqueeze(1), 0);
  const auto loss = (weights * distances).sum() / latents.numel();
  loss.backward();
  return {loss.detach(), leaf.grad()};
}

TEST(GaussianKernel, EqualsTheReferenceInFp64) {
  torch::manual_seed(2);
  const auto z = at::randn({23, 5}, at::kDouble), c = at::randn({31, 5}, at::kDouble);
  const auto indices = squared_distances(z, c).argmin(1);
  const auto check = [&](at::ScalarType type, c10::Device device, double tolerance) {
    const auto to = at::device(device).dtype(type);
    const auto codes = c.to(to).clone().requires_grad_();
    const auto loss = gaussian_ns_loss(z.to(to), codes, indices.to(device), at::full({}, 1.5, to));
    loss.backward();
    const auto [expected, gradient] = gaussian_reference(z, c, indices, 1.5);
    EXPECT_NEAR(loss.item<double>(), expected.item<double>(), tolerance);
    EXPECT_TRUE(at::allclose(codes.grad().cpu().to(at::kDouble), gradient, tolerance, tolerance));
  };
  check(at::kDouble, at::kCPU, 1e-12);
  check(at::kFloat, at::kCPU, 1e-5);
  if (gpu_count() > 0) check(at::kFloat, at::kCUDA, 1e-5);
}

TEST(GaussianKernel, ChunksAddUp) {
  torch::manual_seed(2);
  const int64_t half = 140;  // 140 x 131,072 pairs are a chunk, those of both halves are not
  const auto z = at::randn({2 * half, 2}), c = at::randn({131072, 2});
  const auto tau = at::full({}, 0.01), indices = at::arange(2 * half);
  const auto loss_of = [&](int64_t from, int64_t count) {
    const auto codes = c.clone().requires_grad_();
    const auto loss =
        gaussian_ns_loss(z.narrow(0, from, count), codes, indices.narrow(0, from, count), tau);
    loss.backward();
    return std::pair{loss.detach(), codes.grad()};
  };
  const auto whole = loss_of(0, 2 * half), first = loss_of(0, half), second = loss_of(half, half);
  EXPECT_TRUE(at::allclose(whole.first, (first.first + second.first) / 2, 1e-5));
  EXPECT_TRUE(at::allclose(whole.second, (first.second + second.second) / 2, 1e-3, 1e-8));
}

TEST(GaussianKernel, IsOneOfTheSettings) {
  for (const std::string type : kTypes) {
    auto one = member(type);
    one.config.kernel = "gaussian";
    const auto z = latents_for(one);
    const auto quantizer = make(one);
    const auto found = fit(*quantizer, z);
    const auto [expected, gradient] = gaussian_reference(
        flatten_latents(z), quantizer->code_vectors(), found.result.indices.flatten(), 0.35);
    EXPECT_NEAR(ns_of(found), expected.item<double>(), 1e-5);
    EXPECT_TRUE(at::equal(found.result.indices, quantizer->encode(z)));
    if (type != kTypes.front()) continue;  // whose parameters are the codes
    one.config.alpha = 0;
    const auto without = fit(*make(one), z).gradient.view_as(gradient);
    EXPECT_TRUE(
        at::allclose(found.gradient.view_as(gradient) - without, 0.1 * gradient, 1e-4, 1e-7));
  }
}

TEST(GaussianKernel, WithoutLatentsItIsZero) {
  const auto codes = at::randn({3, 2}).requires_grad_();
  const auto loss =
      gaussian_ns_loss(at::empty({0, 2}), codes, at::empty({0}, at::kLong), at::full({}, 0.5));
  loss.backward();
  EXPECT_EQ(loss.item<double>(), 0);
  EXPECT_EQ(codes.grad().abs().max().item<double>(), 0);
}

TEST(GaussianKernel, OnTheGpuANaNShowsInTheLoss) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  for (const std::string type : kTypes) {
    for (const bool relative : {false, true}) {
      auto one = member(type);
      one.config.kernel = "gaussian";
      one.config.alpha_relative = relative;
      one.config.tau_of_nearest = relative ? 1 : 0;
      const auto quantizer = make(one);
      quantizer->to(at::kCUDA);
      auto z = latents_for(one).cuda();
      z[0][0][0][0] = NAN;
      EXPECT_TRUE(at::isnan(quantizer->quantize(z, {}).loss).item<bool>()) << type;
    }
  }
}

TEST(NeighbourLoss, HasNoNeighboursOfOneCode) {
  const auto group = make_single_group();
  for (const std::string type : kTypes) {
    for (const std::string kernel : {"softmax", "gaussian"}) {
      SCOPED_TRACE(type + " " + kernel);
      auto one = member(type);
      one.config.codes = 1;
      one.config.kernel = kernel;
      one.config.alpha_relative = true;
      one.config.tau_of_nearest = 1;
      for (const int64_t height : {1, 5}) {
        const auto z = latents_for(one, 1, height, 1);
        const auto quantizer = make(one);
        update(*quantizer, z, *group);
        const auto found = fit(*quantizer, z);
        EXPECT_NEAR(ns_of(found), 0, 1e-6);
        EXPECT_TRUE(std::isfinite(found.result.loss.item<double>()));
        EXPECT_TRUE(at::isfinite(found.gradient).all().item<bool>());
      }
    }
  }
}

TEST(NeighbourLoss, HalfPrecisionIsWidenedFirst) {
  const auto group = make_single_group();
  for (const std::string type : kTypes) {
    for (const auto precision : {at::kHalf, at::kBFloat16}) {
      auto one = member(type);
      one.config.kernel = "gaussian";
      one.config.alpha_relative = true;
      one.config.tau_of_nearest = 1;
      const auto half = latents_for(one).to(precision);
      const auto quantizer = make(one);
      quantizer->update_statistics(
          {flatten_latents(half), quantizer->encode(half).flatten(), seed_of(0), *group});
      const auto a = fit(*quantizer, half), b = fit(*quantizer, half.to(at::kFloat));
      EXPECT_TRUE(at::equal(a.result.loss, b.result.loss));
      EXPECT_TRUE(at::equal(a.gradient, b.gradient));
    }
  }
}

}  // namespace
}  // namespace nsvq
