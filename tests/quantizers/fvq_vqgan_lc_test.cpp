// Quantizers whose codes a network makes: fvq and vqgan_lc.

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/nn/layers.h"
#include "nsvq/quantizers/codebook.h"
#include "nsvq/quantizers/members.h"
#include "nsvq/quantizers/members/code_bridge.h"
#include "tests/error_of.h"
#include "tests/quantizers/golden.h"
#include "tests/quantizers/members.h"

namespace nsvq {
namespace {

// made_codes.py computed these in PyTorch with autograd.
TEST(MadeCodes, LossesAndGradientsEqualPyTorchs) {
  const auto cases = golden("made_codes");
  ASSERT_EQ(cases.size(), 3u);
  for (const auto& expected : cases) {
    const auto shape = expected.at("shape").get<std::vector<int64_t>>();
    const auto& settings = expected.at("config");
    QuantizerConfig config;
    config.type = expected.at("type");
    SCOPED_TRACE(config.type);
    config.codes = settings.at("codes");
    if (config.type == "fvq") {
      config.of<BridgeConfig>() = {settings.at("patch"), settings.at("width"), settings.at("heads"),
                                   settings.at("blocks"), settings.at("variant")};
    } else {
      config.of<FeaturesConfig>().dim = settings.at("features");
    }
    const auto quantizer = make_quantizer(config, shape[1]);
    fill_tensors(*quantizer, expected.at("tensors"), 0.5, 0);
    const auto latents = formula(shape, 0.8, 0.1).requires_grad_();
    const auto result = quantizer->quantize(latents, {});
    result.loss.backward();
    EXPECT_NEAR(result.loss.item<double>(), expected.at("loss").get<double>(), 1e-12);
    expect_near(result.indices.to(at::kDouble), expected.at("indices"));
    expect_near(latents.grad(), expected.at("latent_gradient"));
    for (const auto& item : quantizer->named_parameters()) {
      SCOPED_TRACE(item.key());
      const auto& gradient = item.value().grad();
      const auto wanted = expected.at("gradients").at(item.key()).get<std::vector<double>>();
      EXPECT_NEAR(gradient.norm().item<double>(), wanted[0], 1e-11);
      EXPECT_NEAR((gradient * formula(gradient.sizes(), 1, 5.5)).sum().item<double>(), wanted[1],
                  1e-11);
    }
  }
}

// Fused and foreach updates leave a tensor's version as it was: codes kept by versions would be
// stale.
TEST(MadeCodes, FollowParametersHoweverTheyChange) {
  for (const auto* type : {"fvq", "vqgan_lc"}) {
    SCOPED_TRACE(type);
    const auto one = member(type);
    const auto quantizer = make(one);
    const torch::NoGradGuard no_grad;
    for (auto& parameter : quantizer->parameters()) parameter.normal_(0, 0.3);
    const auto indices = quantizer->encode(latents_for(one));
    const auto before = quantizer->code_vectors();
    EXPECT_FALSE(before.requires_grad());
    EXPECT_TRUE(at::equal(quantizer->decode(indices), look_up(before, indices)));
    at::_foreach_add_(quantizer->parameters(), 1);
    const auto after = quantizer->code_vectors();
    EXPECT_FALSE(at::equal(after, before));
    EXPECT_TRUE(at::equal(quantizer->decode(indices), look_up(after, indices)));
  }
}

TEST(Fvq, AllCodesAreZeroAtTheStartAndTiesGoToTheFirst) {
  const auto one = member("fvq");
  const auto quantizer = make(one);
  EXPECT_EQ(quantizer->code_vectors().abs().max().item<double>(), 0);
  EXPECT_EQ(quantizer->encode(latents_for(one)).max().item<int64_t>(), 0);
  EXPECT_LE(quantizer->named_parameters()["embedding"].abs().max().item<double>(), 1.0 / 36);
  EXPECT_FALSE(quantizer->codebook().defined());
}

TEST(Fvq, HasTheAuthorsSizes) {
  QuantizerConfig config;
  config.type = "fvq";
  const int64_t width = 256, numbers = 8 * 8 * 128;
  const int64_t block = (3 + 1 + 2 + 2) * width * width + (3 + 1 + 2 + 1) * width;
  const int64_t plain =
      65536 * 128 + numbers * width + width + 2 * block + width * numbers + numbers;
  const int64_t modulation = width + (6 + 6 + 2) * (width * width + width);
  EXPECT_EQ(parameter_count(*make_quantizer(config, 128)), plain + modulation);
  config.of<BridgeConfig>().variant = "vit";
  EXPECT_EQ(parameter_count(*make_quantizer(config, 128)), plain);
}

// Codes that are equal at one position of all patches differ by the patch positions alone.
TEST(Fvq, PositionsPartThePatches) {
  for (const std::string variant : {"dit", "vit"}) {
    auto one = member("fvq");
    one.config.of<BridgeConfig>().variant = variant;
    const auto quantizer = make(one);
    const torch::NoGradGuard no_grad;
    for (auto& parameter : quantizer->parameters()) parameter.normal_(0, 0.3);
    quantizer->named_parameters()["embedding"].fill_(0.1);
    const auto codes = quantizer->code_vectors();
    EXPECT_EQ(at::allclose(codes[0], codes[2]), variant == "vit");   // a patch to the right
    EXPECT_EQ(at::allclose(codes[0], codes[12]), variant == "vit");  // and one below
  }
}

TEST(Fvq, SaysWhatDoesNotFit) {
  QuantizerConfig config;
  config.type = "fvq";
  const auto message = [&] { return error_of([&] { make_quantizer(config, 4); }); };
  config.codes = 1000;
  EXPECT_NE(message().find("quantizer.codes is 1000"), std::string::npos);
  EXPECT_NE(message().find("use 576 or 1024"), std::string::npos);
  config.codes = 900;  // a square, but not of patches
  EXPECT_NE(message().find("(quantizer.bridge.patch); use 576 or 1024"), std::string::npos);
  config.codes = 9;
  EXPECT_NE(message().find("use 64"), std::string::npos);
  config.codes = 1024;
  config.of<BridgeConfig>().heads = 7;
  EXPECT_NE(message().find("quantizer.bridge.heads is 7"), std::string::npos);
  config.of<BridgeConfig>() = {.width = 6, .heads = 2};
  EXPECT_NE(message().find("quantizer.bridge.width is 6"), std::string::npos);
}

class FeaturesTest : public testing::Test {
 protected:
  FeaturesTest() {
    config_.type = "vqgan_lc";
    config_.codes = 6;
    config_.of<FeaturesConfig>().dim = 5;
    config_.of<FeaturesConfig>().file = path();
  }
  std::string path() { return folder_ / "features.safetensors"; }
  void write(const std::string& name, const torch::Tensor& tensor) {
    write_safetensors(path(), {{{name, tensor}}, {}});
  }
  std::string error() {
    return error_of([&] { make_quantizer(config_, 4)->begin(); });
  }

  TemporaryFolder folder_;
  QuantizerConfig config_;
};

TEST_F(FeaturesTest, AreReadWhenARunBeginsAndStayInTheModel) {
  const auto features = at::randn({6, 5});
  write("features", features.to(at::kHalf));
  const auto quantizer = make_quantizer(config_, 4);
  quantizer->begin();
  const auto kept = quantizer->named_buffers()["features"];
  EXPECT_TRUE(at::equal(kept, features.to(at::kHalf).to(at::kFloat)));
  EXPECT_EQ(quantizer->parameters().size(), 2u) << "the features are frozen";

  config_.of<FeaturesConfig>().file = "/gone";
  const auto loaded = make_quantizer(config_, 4);  // as from a checkpoint
  const torch::NoGradGuard no_grad;
  loaded->named_buffers()["features"].copy_(kept);
  for (auto& item : loaded->named_parameters()) {
    item.value().copy_(quantizer->named_parameters()[item.key()]);
  }
  EXPECT_TRUE(at::equal(loaded->code_vectors(), quantizer->code_vectors()));
}

TEST_F(FeaturesTest, ProjectionStartsAtItsScale) {
  config_.of<FeaturesConfig>().dim = 300;
  const auto weight = make_quantizer(config_, 64)->named_parameters()["projection.weight"];
  EXPECT_NEAR(weight.std().item<double>(), 1.0 / 8, 3e-3);
}

TEST_F(FeaturesTest, SaysWhatIsWrongWithTheFile) {
  EXPECT_NE(error().find("features.safetensors"), std::string::npos);  // no such file
  write_text(path(), "\x93NUMPY and so on");
  EXPECT_NE(error().find("quantizer.features.file: "), std::string::npos) << error();
  EXPECT_NE(error().find("safetensors file that nsvq codebook features makes"), std::string::npos);
  write("other", at::zeros({6, 5}));
  EXPECT_NE(error().find("no tensor 'features'"), std::string::npos);
  write("features", at::zeros({5, 6}));
  EXPECT_NE(error().find("[5, 6]"), std::string::npos);
  write("features", at::full({6, 5}, NAN));
  EXPECT_NE(error().find("finite"), std::string::npos);
  config_.of<FeaturesConfig>().file = "";
  EXPECT_NE(error().find("quantizer.features.file must name"), std::string::npos);
}

}  // namespace
}  // namespace nsvq
