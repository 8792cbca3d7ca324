// The search by blocked matrix products inside a CUDA graph, where nothing may wait for the GPU.

#include <gtest/gtest.h>

#include "nsvq/core/device.h"
#include "nsvq/ops/cases.h"
#include "nsvq/ops/code_search/code_search.h"
#include "nsvq/train/recorded_work.h"
#include "tests/environment.h"

namespace nsvq::blocked_recording_test {
namespace {

struct Step {
  torch::Tensor indices, loss, gradient;
};

Step step_of(const torch::Tensor& latents, const torch::Tensor& codebook) {
  const auto leaf = codebook.detach().clone().requires_grad_();
  const auto found = ns_quantize(latents, leaf, 0.35);
  found.loss.backward();
  return {found.indices, found.loss.detach(), leaf.grad()};
}

TEST(BlockedSearch, GivesTheSameBitsInACudaGraphOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const Environment path("NSVQ_GPU_PATH", "blocked");
  const c10::Device device(at::kCUDA, 0);
  const OwnStream stream(device);
  StepRecorder recorder(device, true);
  Step recorded;
  const auto codebook = draw({"", 1, 20000, 24, "random"}, 0, device).codebook;
  for (uint64_t i = 0; i < 6; ++i) {
    const auto latents = draw({"", 3000, 1, 24, "random"}, i, device).latents;
    recorder.run("search", latents,
                 [&](const torch::Tensor& given) { recorded = step_of(given, codebook); });
    const auto plain = step_of(latents, codebook);
    EXPECT_TRUE(at::equal(recorded.indices, plain.indices)) << i;
    EXPECT_TRUE(at::equal(recorded.loss, plain.loss)) << i;
    EXPECT_TRUE(at::equal(recorded.gradient, plain.gradient)) << i;
  }
}

}  // namespace
}  // namespace nsvq::blocked_recording_test
