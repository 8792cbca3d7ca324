// What holds for every quantizer: a new member is tested here from the moment it is registered.

#include <gtest/gtest.h>

#include "nsvq/core/error.h"
#include "nsvq/quantizers/quantizer.h"

namespace nsvq {
namespace {

constexpr int64_t kDim = 6;

class EveryQuantizer : public testing::TestWithParam<std::string> {
 protected:
  std::shared_ptr<Quantizer> make(int64_t codes = 37, const std::string& init = "gaussian",
                                  const std::string& operators = "streaming") {
    torch::manual_seed(3);
    QuantizerConfig config;
    config.type = GetParam();
    config.codes = codes;
    config.init = init;
    config.operators = operators;
    return make_quantizer(config, kDim);
  }
  torch::Tensor latents(int64_t batch = 2, int64_t h = 5, int64_t w = 3) {
    torch::manual_seed(4);
    return at::randn({batch, kDim, h, w}) * 0.5;
  }
};

TEST_P(EveryQuantizer, ShapesAndRange) {
  for (const int64_t codes : {1, 31, 33}) {
    const auto quantizer = make(codes);
    const auto result = quantizer->quantize(latents(), {});
    EXPECT_EQ(quantizer->codes(), codes);
    EXPECT_EQ(result.latents.sizes(), latents().sizes());
    EXPECT_EQ(result.indices.sizes(), (std::vector<int64_t>{2, 5, 3}));
    EXPECT_EQ(result.indices.scalar_type(), at::kLong);
    EXPECT_GE(result.indices.min().item<int64_t>(), 0);
    EXPECT_LT(result.indices.max().item<int64_t>(), codes);
    EXPECT_EQ(result.loss.dim(), 0);
    EXPECT_TRUE(result.terms.count("commitment"));
  }
}

TEST_P(EveryQuantizer, DecodedIndicesAreWhatTheDecoderGetsBitForBit) {
  const auto quantizer = make();
  const auto result = quantizer->quantize(latents(), {});
  EXPECT_TRUE(at::equal(quantizer->encode(latents()), result.indices));
  EXPECT_TRUE(at::equal(quantizer->decode(result.indices), result.latents));
}

TEST_P(EveryQuantizer, GradientsPassStraightThrough) {
  const auto quantizer = make();
  const auto z = latents().requires_grad_();
  const auto weight = at::randn_like(z);
  (quantizer->quantize(z, {}).latents * weight).sum().backward();
  EXPECT_TRUE(at::equal(z.grad(), weight));
}

TEST_P(EveryQuantizer, WithoutCommitmentTheLossLeavesTheEncoderAlone) {
  const auto quantizer = make();
  const auto z = latents().requires_grad_();
  quantizer->quantize(z, {.commitment = false, .neighbours = true}).loss.backward();
  EXPECT_TRUE(!z.grad().defined() || z.grad().abs().max().item<double>() == 0);
}

TEST_P(EveryQuantizer, EncodingChangesNoState) {
  const auto quantizer = make();
  std::vector<torch::Tensor> before;
  for (const auto& tensor : quantizer->parameters()) before.push_back(tensor.clone());
  quantizer->encode(latents());
  const auto after = quantizer->parameters();
  for (size_t i = 0; i < after.size(); ++i) EXPECT_TRUE(at::equal(before[i], after[i]));
}

TEST_P(EveryQuantizer, LayoutOfTheLatentsDoesNotMatter) {
  const auto quantizer = make();
  const auto z = latents();
  const auto other = z.contiguous(at::MemoryFormat::ChannelsLast);
  const auto a = quantizer->quantize(z, {}), b = quantizer->quantize(other, {});
  EXPECT_TRUE(at::equal(a.indices, b.indices));
  EXPECT_NEAR(a.loss.item<double>(), b.loss.item<double>(), 1e-6);
}

TEST_P(EveryQuantizer, TrainingReducesTheLoss) {
  const auto quantizer = make();
  const auto z = latents(8);
  const double before = quantizer->quantize(z, {}).loss.item<double>();
  for (int step = 0; step < 20; ++step) {
    quantizer->zero_grad();
    quantizer->quantize(z, {}).loss.backward();
    const torch::NoGradGuard no_grad;
    for (auto& parameter : quantizer->parameters()) parameter.sub_(parameter.grad(), 5);
  }
  EXPECT_LT(quantizer->quantize(z, {}).loss.item<double>(), 0.9 * before);
}

TEST_P(EveryQuantizer, NaNLatentsAreRefused) {
  auto z = latents();
  z[0][0][0][0] = NAN;
  EXPECT_ANY_THROW(make()->encode(z));
}

TEST_P(EveryQuantizer, OperatorsAgree) {
  const auto z = latents(3, 7, 5);
  struct Outcome {
    Quantized result;
    torch::Tensor to_latents;
    std::vector<torch::Tensor> to_parameters;
  };
  const auto outcome = [&](const std::string& operators) {
    const auto quantizer = make(37, "gaussian", operators);
    const auto input = z.clone().requires_grad_();
    Outcome out{quantizer->quantize(input, {}), {}, {}};
    (out.result.loss + out.result.latents.square().sum()).backward();
    out.to_latents = input.grad();
    for (const auto& parameter : quantizer->parameters()) {
      out.to_parameters.push_back(parameter.grad());
    }
    return out;
  };
  const auto ours = outcome("streaming"), plain = outcome("plain");
  EXPECT_TRUE(at::equal(ours.result.indices, plain.result.indices));
  EXPECT_TRUE(at::allclose(ours.result.loss, plain.result.loss, 1e-5, 1e-7));
  EXPECT_TRUE(at::allclose(ours.to_latents, plain.to_latents, 1e-5, 1e-7));
  ASSERT_EQ(ours.to_parameters.size(), plain.to_parameters.size());
  for (size_t i = 0; i < ours.to_parameters.size(); ++i) {
    EXPECT_TRUE(at::allclose(ours.to_parameters[i], plain.to_parameters[i], 1e-4, 1e-7)) << i;
  }
}

TEST_P(EveryQuantizer, CodesDrawnFromDataAreLatents) {
  const auto quantizer = make(10, "data");
  if (!quantizer->wants_data()) GTEST_SKIP();
  const auto flat = latents().permute({0, 2, 3, 1}).reshape({-1, kDim});
  quantizer->initialise_from(flat, 1);
  const auto same = quantizer->codebook().unsqueeze(1).eq(flat.unsqueeze(0)).all(2);
  EXPECT_TRUE(same.any(1).all().item<bool>());
  quantizer->initialise_from(flat.slice(0, 0, 4), 1);  // fewer latents than codes
  EXPECT_EQ(std::get<0>(at::unique_dim(quantizer->codebook(), 0)).size(0), 10);
}

std::vector<std::string> names() {
  std::vector<std::string> result;
  for (const auto& kind : quantizer_kinds()) result.push_back(kind.name);
  return result;
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryQuantizer, testing::ValuesIn(names()),
                         [](const auto& info) { return info.param; });

TEST(QuantizerRegistry, UnknownTypeNamesTheNearest) {
  QuantizerConfig config;
  config.type = "nsqv";
  try {
    make_quantizer(config, 4);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("'nsvq'"), std::string::npos) << error.what();
  }
}

TEST(QuantizerRegistry, InitialisationsHaveTheirScales) {
  QuantizerConfig config;
  config.codes = 4096;
  torch::manual_seed(0);
  EXPECT_NEAR(make_quantizer(config, 64)->codebook().std().item<double>(), 1.0 / 8, 1e-3);
  config.init = "uniform";
  const auto uniform = make_quantizer(config, 64)->codebook();
  EXPECT_LE(uniform.abs().max().item<double>(), 1.0 / 4096);
  EXPECT_GT(uniform.abs().max().item<double>(), 0.99 / 4096);
}

}  // namespace
}  // namespace nsvq
