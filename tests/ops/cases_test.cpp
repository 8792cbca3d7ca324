// Every operator over every small case of bench/cases.h, on each device and by each path of the
// search there, against its reference.

#include "bench/cases.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <map>
#include <set>

#include "nsvq/core/device.h"
#include "nsvq/core/precision.h"
#include "nsvq/ops/code_search/code_search.h"
#include "nsvq/ops/code_search/code_search_reference.h"
#include "nsvq/ops/code_search/ns_search.h"
#include "nsvq/ops/code_statistics/code_usage.h"
#include "nsvq/ops/common/dispatch.h"
#include "nsvq/ops/group_norm/group_norm_silu.h"
#include "tests/environment.h"
#include "tests/ops/backends.h"

namespace nsvq::cases_test {
namespace {

using Tensor = torch::Tensor;

constexpr uint64_t kSeed = 6;
constexpr double kTau = 0.35;

template <typename Case>
std::vector<Case> small_ones(const std::vector<Case>& all) {
  std::vector<Case> some;
  for (const auto& one : all) {
    if (one.use == CaseUse::test) some.push_back(one);
  }
  return some;
}

Tensor exact(const Tensor& tensor) { return tensor.detach().to(at::kCPU, at::kDouble); }

double relative_error(const Tensor& result, const Tensor& expected) {
  const double size = expected.norm().item<double>();
  return (exact(result) - expected).norm().item<double>() / (size > 1e-30 ? size : 1);
}

/// Errors of single cases scatter, so the largest of a family count: at most twice those of the
/// plain version in the same precision.
class ErrorsByFamily {
 public:
  void add(const std::string& family, double ours, double plain) {
    EXPECT_TRUE(std::isfinite(ours)) << family;
    auto& largest = errors_[family];
    largest.first = std::max(largest.first, ours);
    largest.second = std::max(largest.second, plain);
  }
  void expect_small(double rounding) const {
    for (const auto& [family, largest] : errors_) {
      EXPECT_LE(largest.first, 2 * largest.second + rounding) << family;
    }
  }

 private:
  std::map<std::string, std::pair<double, double>> errors_;
};

class Cases : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    if (device().is_cuda() && gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  }
  c10::Device device() const { return c10::Device(GetParam().device); }

 private:
  const Environment path_{"NSVQ_GPU_PATH", GetParam().path};
  const Tf32Guard as_bench_ops_{Tf32Work::products, true};
};

INSTANTIATE_TEST_SUITE_P(Backends, Cases, testing::ValuesIn(all_backends()),
                         [](const auto& one) { return one.param.name; });

/// Loss and gradient, in fp64 on the CPU.
struct Result {
  Tensor loss, gradient;
};

template <typename Loss>
Result result_of(const Tensor& codebook, const Loss& loss_of) {
  const auto leaf = codebook.detach().clone().requires_grad_();
  const auto loss = loss_of(leaf);
  loss.backward();
  return {exact(loss), exact(leaf.grad())};
}

Result plain(const DrawnCodes& drawn, const Tensor& indices, at::ScalarType type) {
  return result_of(drawn.codebook.to(type), [&](const Tensor& codebook) {
    return ns_loss_reference(drawn.latents.to(type), codebook, indices, kTau);
  });
}

DrawnCodes moved(const DrawnCodes& drawn, c10::Device device) {
  return {drawn.latents.to(device), drawn.codebook.to(device)};
}

TEST(CaseTable, DrawsWhatItSays) {
  std::set<std::string> names, drawn;
  for (const auto& one : code_cases()) {
    EXPECT_TRUE(names.insert(one.name).second) << one.name << " is there twice";
    drawn.insert(one.family);
    if (one.use == CaseUse::time_gpu) continue;
    const auto some = draw(one, kSeed, at::kCPU), again = draw(one, kSeed, at::kCPU);
    EXPECT_EQ(some.latents.sizes(), at::IntArrayRef({one.latents, one.dimension}));
    EXPECT_EQ(some.codebook.sizes(), at::IntArrayRef({one.codes, one.dimension}));
    EXPECT_EQ(some.codebook.scalar_type(), one.type);
    EXPECT_TRUE(at::equal(some.latents, again.latents) && at::equal(some.codebook, again.codebook));
    EXPECT_TRUE(at::isfinite(some.codebook).all().item<bool>()) << one.name;
  }
  EXPECT_EQ(drawn.size(), code_families().size());
}

TEST_P(Cases, SearchIsExact) {
  for (const auto& one : small_ones(code_cases())) {
    const auto drawn = draw(one, kSeed, at::kCPU), here = moved(drawn, device());
    const auto [expected, expected_distances] = nearest_codes_fp64(drawn.latents, drawn.codebook);
    const auto check = [&](const char* name, const Tensor& indices, const Tensor& distances) {
      EXPECT_TRUE(at::equal(indices.cpu(), expected)) << name << ": " << one.name;
      const double rounding = device().is_cpu() ? 0 : 1e-6;
      EXPECT_TRUE(at::allclose(distances.cpu(), expected_distances, rounding, 0))
          << name << ": " << one.name;
    };
    const auto [indices, distances] = nearest_codes(here.latents, here.codebook);
    check("nearest_codes", indices, distances);
    if (!one.has_loss()) continue;
    for (const bool gradient : {false, true}) {
      const auto codebook = here.codebook.clone().requires_grad_(gradient);
      const auto found = ns_quantize(here.latents, codebook, kTau);
      check("ns_quantize", found.indices, found.distances.detach());
      EXPECT_TRUE(std::isfinite(found.loss.item<double>())) << one.name;
      EXPECT_EQ(found.loss.requires_grad(), gradient) << one.name;
      if (!gradient) continue;
      found.loss.backward();
      EXPECT_TRUE(at::isfinite(codebook.grad()).all().item<bool>()) << one.name;
      EXPECT_EQ(codebook.grad().scalar_type(), one.type) << one.name;
    }
  }
}

TEST_P(Cases, NsLossIsAccurate) {
  ErrorsByFamily losses, gradients;
  for (const auto& one : small_ones(code_cases())) {
    if (!one.has_loss()) continue;
    if (one.family == "large norms") continue;  // fp32 products leave no digit of these distances
    const auto drawn = draw(one, kSeed, at::kCPU), here = moved(drawn, device());
    const auto indices = std::get<0>(nearest_codes_fp64(drawn.latents, drawn.codebook));
    const auto right = plain(drawn, indices, at::kDouble);
    const auto theirs = plain(here, indices.to(device()), one.type);
    const auto ours = [&](const char* name, const auto& loss_of) {
      const auto result = result_of(here.codebook, loss_of);
      const auto family =
          fmt::format("{}, {}, d = {}, {}", name, one.family, one.dimension, toString(one.type));
      losses.add(family, relative_error(result.loss, right.loss),
                 relative_error(theirs.loss, right.loss));
      gradients.add(family, relative_error(result.gradient, right.gradient),
                    relative_error(theirs.gradient, right.gradient));
    };
    ours("ns_quantize",
         [&](const Tensor& codebook) { return ns_quantize(here.latents, codebook, kTau).loss; });
    ours("ns_loss", [&](const Tensor& codebook) {
      return ns_loss(here.latents, codebook, indices.to(device()), kTau);
    });
  }
  // On a GPU both round to 11 bits, the plain version in TF32, but they round different values.
  const double rounding = device().is_cuda() ? 2e-4 : 1e-6;
  losses.expect_small(rounding);
  gradients.expect_small(rounding);
}

// ns_search_with_grad sums the gradient with the search where a kernel can, ns_codebook_grad after
// it: they round different values.
TEST_P(Cases, CodebookGradIsThatOfTheSearch) {
  using Grad = Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, double);
  const auto codebook_grad = operator_named<Grad>("nsvq::ns_codebook_grad");
  for (const auto& one : small_ones(code_cases())) {
    if (!one.has_loss() || one.family == "large norms") continue;
    const auto here = draw(one, kSeed, device());
    const auto [indices, distances, losses, denominators, grad] =
        ns_search(here.latents, here.codebook, kTau, /*with_grad=*/true);
    const auto after = codebook_grad.call(here.latents, here.codebook, indices, denominators, kTau);
    const double rounding = device().is_cuda() ? 1e-2 : 1e-4;
    EXPECT_LE(relative_error(after, exact(grad)), rounding) << one.name;
  }
}

TEST_P(Cases, NsLossOfOtherCodesThanTheNearest) {
  torch::manual_seed(0);
  for (const auto& one : small_ones(code_cases())) {
    if (one.family != "random" || one.type != at::kFloat || one.latents == 0) continue;
    const auto drawn = draw(one, kSeed, at::kCPU), here = moved(drawn, device());
    auto indices = std::get<0>(nearest_codes_fp64(drawn.latents, drawn.codebook));
    const auto others = at::randint(one.codes, {one.latents}, at::kLong);
    indices = at::where(others % 2 == 0, others, indices);
    const auto right = plain(drawn, indices, at::kDouble);
    const auto result = result_of(here.codebook, [&](const Tensor& codebook) {
      return ns_loss(here.latents, codebook, indices.to(device()), kTau);
    });
    const double rounding = device().is_cuda() ? 1e-2 : 1e-5;
    EXPECT_LE(relative_error(result.loss, right.loss), rounding) << one.name;
    EXPECT_LE(relative_error(result.gradient, right.gradient), rounding) << one.name;
  }
}

TEST_P(Cases, DistancesHaveGradients) {
  for (const auto& one : small_ones(code_cases())) {
    if (one.type != at::kFloat || !one.has_loss()) continue;
    const auto drawn = draw(one, kSeed, device());
    const auto latents = drawn.latents.requires_grad_(), codebook = drawn.codebook.requires_grad_();
    const auto indices = std::get<0>(nearest_codes(latents, codebook));
    const auto weights = at::linspace(1, 2, one.latents, latents.options().requires_grad(false));
    const auto gradients = [&](const Tensor& distances) {
      return torch::autograd::grad({(distances * weights).sum()}, {latents, codebook});
    };
    const auto expected = gradients((latents - codebook.index_select(0, indices)).square().sum(1));
    const auto of_search = gradients(std::get<1>(nearest_codes(latents, codebook)));
    const auto of_quantizer = gradients(ns_quantize(latents, codebook, kTau).distances);
    for (const int i : {0, 1}) {
      EXPECT_LE(relative_error(of_search[i], exact(expected[i])), 1e-6) << one.name;
      EXPECT_LE(relative_error(of_quantizer[i], exact(expected[i])), 1e-6) << one.name;
    }
  }
}

TEST_P(Cases, UsageIsCounted) {
  for (const auto& one : small_ones(code_cases())) {
    const auto here = draw(one, kSeed, device());
    const auto indices = std::get<0>(nearest_codes(here.latents, here.codebook));
    EXPECT_TRUE(
        at::equal(code_usage(indices, one.codes).cpu(), at::bincount(indices.cpu(), {}, one.codes)))
        << one.name;
  }
}

TEST_P(Cases, GroupNormSiluIsAccurate) {
  ErrorsByFamily errors;
  for (const auto& one : small_ones(image_cases())) {
    const auto drawn = draw(one, kSeed, at::kCPU);
    const auto results = [&](auto op, c10::Device where, at::ScalarType type) {
      const auto leaf = [&](const Tensor& tensor) {
        return tensor.to(where, type).detach().clone().requires_grad_();
      };
      const auto input = leaf(drawn.input), weight = leaf(drawn.weight), bias = leaf(drawn.bias);
      const auto output = op(input, weight, bias, one.groups, 1e-6, true);
      output.backward(drawn.gradient.to(where, type));
      return std::vector{exact(output), exact(input.grad()), exact(weight.grad()),
                         exact(bias.grad())};
    };
    const auto right = results(group_norm_silu_reference, at::kCPU, at::kDouble);
    const auto theirs = results(group_norm_silu_reference, at::kCPU, one.type);
    const auto ours = results(group_norm_silu, device(), one.type);
    for (size_t i = 0; i < right.size(); ++i) {
      errors.add(fmt::format("{}, result {}", toString(one.type), i),
                 relative_error(ours[i], right[i]), relative_error(theirs[i], right[i]));
    }
  }
  errors.expect_small(1e-6);
}

}  // namespace
}  // namespace nsvq::cases_test
