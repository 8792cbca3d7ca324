#include "nsvq/tokens/token_stream.h"

#include <gtest/gtest.h>

#include "nsvq/core/device.h"
#include "nsvq/core/precision.h"
#include "nsvq/recipe/loader_options.h"
#include "nsvq/tokenizer/evaluate.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

constexpr auto kStreamImages = "builtin:dead-leaves?size=20&count=43";

TokenizerConfig stream_config() {
  auto config = tiny_config();
  config.train.precision = "fp32";
  return config;
}

/// Tokens of all images from batch `first` on, and where they are in the source.
TokenBatch all_tokens(Tokenizer& model, c10::Device device, int64_t first = 0) {
  TokenStream stream(model, open_source(kStreamImages),
                     inference_loader_options(stream_config(), device));
  stream.start(first);
  std::vector<torch::Tensor> tokens;
  std::vector<int64_t> indices;
  while (const auto batch = stream.next()) {
    EXPECT_TRUE(batch->tokens.is_cpu());
    tokens.push_back(batch->tokens);
    indices.insert(indices.end(), batch->indices.begin(), batch->indices.end());
  }
  EXPECT_FALSE(stream.next());
  return {at::cat(tokens), indices};
}

/// What the stream has to give, batch by batch.
torch::Tensor plain_tokens(Tokenizer& model) {
  const torch::NoGradGuard no_grad;
  Loader loader(open_source(kStreamImages), inference_loader_options(stream_config()));
  std::vector<torch::Tensor> tokens;
  while (const auto batch = loader.next()) tokens.push_back(model->encode(batch->images));
  return at::cat(tokens);
}

TEST(TokenStream, GivesTheTokensOfEveryBatchInOrder) {
  auto model = make_tokenizer(stream_config(), at::kCPU);
  const auto expected = plain_tokens(model);
  const auto all = all_tokens(model, at::kCPU);
  EXPECT_TRUE(at::equal(all.tokens, expected));
  ASSERT_EQ(all.indices.size(), 43u);
  for (int64_t i = 0; i < 43; ++i) EXPECT_EQ(all.indices[i], i);
  const auto rest = all_tokens(model, at::kCPU, 5);  // the last, short batch
  EXPECT_TRUE(at::equal(rest.tokens, expected.slice(0, 40)));
}

TEST(TokenStream, GivesTheSameOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  auto model = make_tokenizer(stream_config(), at::kCPU);
  const auto expected = plain_tokens(model);
  const c10::Device gpu(c10::kCUDA, 0);
  const TorchFlags flags({});  // no TF32
  move_to_device(model, stream_config(), gpu);
  const auto all = all_tokens(model, gpu);
  EXPECT_EQ(all.indices.size(), 43u);
  const auto equal = all.tokens.eq(expected).to(at::kDouble).mean().item<double>();
  EXPECT_GT(equal, 0.98);  // but for near ties
}

void expect_not_finite(c10::Device device, const std::string& words) {
  auto model = make_tokenizer(stream_config(), device);
  const torch::NoGradGuard no_grad;
  named_tensors(*model).at("encoder.conv_out.bias").fill_(NAN);
  try {
    all_tokens(model, device);
    ADD_FAILURE() << "no error";
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    EXPECT_NE(text.find(words), std::string::npos) << text;
  }

  Loader loader(open_source(kStreamImages), inference_loader_options(stream_config(), device));
  MetricSet metrics({"psnr"}, {});
  EXPECT_THROW(evaluate(model, loader, device, metrics), c10::Error);
}

TEST(TokenStream, SaysThatLatentsAreNotFinite) { expect_not_finite(at::kCPU, "NaN or infinity"); }

TEST(TokenStream, SaysThatLatentsAreNotFiniteOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  expect_not_finite(c10::Device(c10::kCUDA, 0), "not finite");
}

}  // namespace
}  // namespace nsvq
