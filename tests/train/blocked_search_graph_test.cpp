// Searches by other kernels than Hopper's inside a CUDA graph, where nothing may synchronise with
// the host.

#include <gtest/gtest.h>

#include "bench/cases.h"
#include "nsvq/core/device.h"
#include "nsvq/ops/code_search/code_search.h"
#include "nsvq/train/steps/cuda_graph.h"
#include "tests/environment.h"

namespace nsvq::blocked_search_graph_test {
namespace {

struct Result {
  torch::Tensor indices, loss, gradient;
};

Result result_of(const torch::Tensor& latents, const torch::Tensor& codebook) {
  const auto leaf = codebook.detach().clone().requires_grad_();
  const auto found = ns_quantize(latents, leaf, 0.35);
  found.loss.backward();
  return {found.indices, found.loss.detach(), leaf.grad()};
}

void expect_the_same_bits(const char* gpu_path) {
  const Environment path("NSVQ_GPU_PATH", gpu_path);
  const c10::Device device(at::kCUDA, 0);
  const SideStreamGuard stream(device);
  StepGraph graph(device, true);
  Result replayed;
  const auto codebook = draw({"", 1, 20000, 24, "random"}, 0, device).codebook;
  for (uint64_t i = 0; i < 6; ++i) {
    const auto latents = draw({"", 3000, 1, 24, "random"}, i, device).latents;
    const auto step = [&](const std::vector<torch::Tensor>& batch) {
      replayed = result_of(batch[0], codebook);
    };
    if (!graph.replay("search", {latents}, step)) step({latents});
    const auto eager = result_of(latents, codebook);
    EXPECT_TRUE(at::equal(replayed.indices, eager.indices)) << i;
    EXPECT_TRUE(at::equal(replayed.loss, eager.loss)) << i;
    EXPECT_TRUE(at::equal(replayed.gradient, eager.gradient)) << i;
  }
}

TEST(BlockedSearch, GivesTheSameBitsInACudaGraphOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  for (const char* path : {"blocked", "sm80"}) {
    SCOPED_TRACE(path);
    expect_the_same_bits(path);
  }
}

}  // namespace
}  // namespace nsvq::blocked_search_graph_test
