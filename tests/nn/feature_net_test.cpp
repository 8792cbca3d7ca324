#include "nsvq/nn/features/feature_net.h"

#include <gtest/gtest.h>

#include "nsvq/core/device.h"
#include "nsvq/core/precision.h"
#include "nsvq/nn/layers.h"

namespace nsvq {
namespace {

/// Activations, and last the images' gradient of the sum of their squares.
std::vector<torch::Tensor> results(FeatureNet& net, const torch::Tensor& images) {
  const auto leaf = images.detach().requires_grad_();
  auto all = net.features(leaf);
  torch::Tensor loss;
  for (const auto& activation : all) {
    const auto own = activation.square().sum();
    loss = loss.defined() ? loss + own : own;
  }
  loss.backward();
  all.push_back(leaf.grad());
  return all;
}

double apart(const torch::Tensor& a, const torch::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

// Against the same networks in fp64, which leave the bias to the convolution.
void expect_fp64_results_on(c10::Device device) {
  torch::manual_seed(0);
  for (const auto& kind : feature_net_kinds()) {
    const auto net = kind.make();
    net->to(device);
    make_channels_last(*net);
    const auto images = at::randn({2, 3, kind.least_size + 17, kind.least_size + 16}, device);
    const auto fast = results(*net, images);
    net->to(at::kDouble);
    const auto exact = results(*net, images.to(at::kDouble));
    ASSERT_EQ(fast.size(), kind.channels.size() + 1);
    for (size_t i = 0; i + 1 < fast.size(); ++i) {
      EXPECT_LE(apart(fast[i], exact[i]), 1e-4) << kind.name << ", activation " << i;
    }
    // Numbers next to zero may be on either side of it.
    EXPECT_LE(apart(fast.back(), exact.back()), 1e-2) << kind.name << ", gradient";
  }
}

TEST(FeatureNets, GiveTheResultsOfFp64) { expect_fp64_results_on(at::kCPU); }

TEST(FeatureNets, GiveTheResultsOfFp64OnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const Tf32Guard exact(Tf32Work::convolutions, false);
  expect_fp64_results_on(at::kCUDA);
}

}  // namespace
}  // namespace nsvq
