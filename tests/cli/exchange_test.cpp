// nsvq export and nsvq import, and reconstruct --fit.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/core/tensor_map.h"
#include "nsvq/data/sources/source.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/images/image.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/tokenizer/open_model.h"
#include "tests/cli/model_file.h"
#include "tests/cli/run.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

class Exchange : public testing::Test {
 protected:
  void SetUp() override {
    write_model_file(model_, tiny_config());
    write_text(recipe_, to_yaml(tiny_config()));
  }

  /// The model's tensors as SimVQ names them, behind `prefix`.
  TensorMap as_simvq(const std::string& prefix = "") {
    const std::vector<std::pair<std::string, std::string>> names = {
        {"mid.block_1.", "mid_block.0."},
        {"mid.block_2.", "mid_block.1."},
        {"upsample.", "upsample.conv1."},
        {"quantizer.codebook", "quantize.embedding.weight"}};
    TensorMap theirs;
    for (const auto& [our_name, tensor] : read_safetensors(model_).tensors) {
      auto name = our_name;
      for (const auto& [ours, other] : names) {
        const size_t at = name.find(ours);
        if (at != std::string::npos) name.replace(at, ours.size(), other);
      }
      theirs[prefix + name] = tensor;
    }
    return theirs;
  }
  Result import_tensors(const TensorMap& tensors, std::vector<std::string> more = {}) {
    write_safetensors(folder_ / "theirs.safetensors", {tensors, {}});
    std::vector<std::string> words = {"import",   (folder_ / "theirs.safetensors").string(),
                                      "--recipe", recipe_,
                                      "--force",  "--out",
                                      out_};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  void expect_same_as_model(const fs::path& path) {
    const auto expected = read_safetensors(model_).tensors;
    const auto found = named_tensors(*load_model(path).tokenizer);
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [name, tensor] : expected) EXPECT_TRUE(at::equal(found.at(name), tensor));
  }

  TemporaryFolder folder_;
  std::string model_ = (folder_ / "model.safetensors").string();
  std::string recipe_ = (folder_ / "recipe.yaml").string();
  std::string out_ = (folder_ / "imported").string();
};

TEST_F(Exchange, ExportWritesWeightsAndConfiguration) {
  const auto out = folder_ / "export" / "m.safetensors";
  const auto result = run({"export", model_, "--out", out.string()});
  ASSERT_EQ(result.code, 0) << result.error;
  expect_same_as_model(out);
  const auto json = nlohmann::json::parse(read_text(folder_ / "export" / "m.json"));
  EXPECT_EQ(json.at("model").at("multipliers"), nlohmann::json({1, 2}));
  EXPECT_EQ(json.at("quantizer").at("codes"), 32);
  EXPECT_EQ(json.at("nsvq").at("stride"), 2);
  EXPECT_EQ(json.at("nsvq").at("sha256").get<std::string>().size(), 64u);
  EXPECT_EQ(json.at("seed"), 0);
  const auto loader = folder_ / "export" / "load_m.py";
  expect_contains(result.out, {"m.safetensors\n", "m.json\n", loader.string() + "\n"});
  expect_contains(read_text(loader), {"def load(", "class Tokenizer("});
  expect_failure(run({"export", model_, "--out", "m.pth"}), 2, {"m.pth", ".safetensors"});
}

TEST_F(Exchange, ImportsItsOwnExportAndSimvqsNames) {
  ASSERT_EQ(import_tensors(read_safetensors(model_).tensors).code, 0);
  expect_same_as_model(out_);
  for (const auto* prefix : {"", "module.", "model.", "module.model._orig_mod."}) {
    const auto result = import_tensors(as_simvq(prefix));
    ASSERT_EQ(result.code, 0) << result.error;
    expect_same_as_model(out_);
  }
  const auto file = (folder_ / "one.safetensors").string();
  ASSERT_EQ(import_tensors(as_simvq(), {"--out", file}).code, 2);  // --out twice
}

TEST_F(Exchange, ProjectedCodesBecomeTheCodebook) {
  auto tensors = as_simvq();
  const auto codes = tensors.at("quantize.embedding.weight");
  const auto weight = at::randn({8, 8}), bias = at::randn({8});
  tensors["quantize.embedding_proj.weight"] = weight;
  tensors["quantize.embedding_proj.bias"] = bias;
  ASSERT_EQ(import_tensors(tensors).code, 0);
  const auto codebook = load_model(out_).tokenizer->quantizer->codebook();
  EXPECT_TRUE(at::allclose(codebook, at::linear(codes, weight, bias), 1e-5, 1e-6));
  tensors["quantize.embedding_proj.weight"] = at::randn({8, 7});
  expect_failure(import_tensors(tensors), 2, {"projection"});
}

TEST_F(Exchange, TheAverageOnDemand) {
  auto tensors = as_simvq();
  const auto trained = tensors;
  for (const auto& [name, tensor] : trained) {
    auto undotted = name;
    std::erase(undotted, '.');
    tensors["model_ema." + undotted] = tensor;
    tensors[name] = at::zeros_like(tensor);
  }
  tensors["model_ema.decay"] = at::ones({});
  tensors["loss.discriminator.main.0.weight"] = at::ones({3});
  const auto result = import_tensors(tensors, {"--ema"});
  ASSERT_EQ(result.code, 0) << result.error;
  expect_contains(result.out, {"1 tensor of loss.*", "tensors of model_ema.*"});
  expect_same_as_model(out_);
  tensors.erase("model_ema.encoderconv_inweight");
  expect_failure(import_tensors(tensors, {"--ema"}), 2, {"encoder.conv_in.weight", "--ema"});
}

TEST_F(Exchange, EveryTensorIsPlacedOrNamed) {
  auto tensors = as_simvq();
  tensors["encoder.down.0.block.0.conv1.bias"] = at::zeros({8});  // taming's blocks have one
  tensors.erase("decoder.conv_in.weight");
  expect_failure(import_tensors(tensors), 2,
                 {"unexpected: 'encoder.down.0.block.0.conv1.bias'",
                  "missing: 'decoder.conv_in.weight'", "recipe"});
  tensors = as_simvq();
  tensors["decoder.conv_in.weight"] = at::zeros({1});
  expect_failure(import_tensors(tensors), 2, {"decoder.conv_in.weight", "[1]"});
  tensors = as_simvq();
  tensors["module.decoder.conv_in.weight"] = at::zeros({1});
  expect_failure(import_tensors(tensors), 2, {"two tensors", "decoder.conv_in.weight"});
  EXPECT_FALSE(fs::exists(out_));
}

TEST_F(Exchange, WhoseWeightsTheyAreIsSaidBeforeARecipeIsAskedFor) {
  auto tensors = as_simvq("model.");
  const auto file = (folder_ / "x.safetensors").string();
  write_safetensors(file, {tensors, {}});
  expect_failure(run({"import", file}), 2, {"--recipe is required"});
  expect_failure(run({"import", file, "--recipe", recipe_}), 2, {"--out is required"});
  tensors["model.decoder.adaptive.0.gamma.weight"] = at::zeros({1});
  write_safetensors(file, {tensors, {}});
  for (const auto& words : {std::vector<std::string>{"import", file},
                            {"import", file, "--recipe", "none.yaml", "--out", out_}}) {
    expect_failure(run(words), 2,
                   {file, "Open-MAGVIT2 is recognised; its backbone is not supported yet"});
  }
}

TEST_F(Exchange, ImportsAPyTorchFile) {
  // Its only tensors are not a tokenizer's, so all of them are named.
  const auto golden = fs::path(NSVQ_TESTS_DIR) / "../io/golden/pytorch/checkpoint.ckpt";
  expect_failure(run({"import", golden, "--recipe", recipe_, "--out", out_}), 2,
                 {"checkpoint.ckpt", "unexpected: 'bias', 'weight'; missing: "});
}

TEST_F(Exchange, ReconstructsAnySize) {
  const auto source = open_source("builtin:dead-leaves?size=21&count=2");
  write_image(folder_ / "photos" / "a.png", source->load(0));
  auto other = source->load(1);
  other.height = 13;
  other.pixels.resize(size_t{3} * 21 * 13);
  write_image(folder_ / "photos" / "b" / "c.png", other);
  const auto reconstruct = [&](const std::string& fit, const std::string& out) {
    return run({"reconstruct", model_, "--data", (folder_ / "photos").string(), "--fit", fit,
                "--out", (folder_ / out).string()});
  };
  const auto size = [&](const fs::path& path) {
    const auto image = read_image(path);
    return std::pair(image.width, image.height);
  };
  for (const auto& [fit, side, low] :
       {std::tuple{"pad", 21, 13}, {"crop", 20, 12}, {"resize", 22, 14}}) {
    const std::string out = std::string("out-") + fit;
    const auto result = reconstruct(fit, out);
    ASSERT_EQ(result.code, 0) << result.error;
    EXPECT_EQ(size(folder_ / out / "a.png"), std::pair(side, side));
    EXPECT_EQ(size(folder_ / out / "b/c.png"), std::pair(side, low));
  }
  EXPECT_EQ(run({"reconstruct", model_, "--data", (folder_ / "photos/a.png").string(), "--fit",
                 "pad", "--out", (folder_ / "grid.png").string()})
                .code,
            0);
  EXPECT_EQ(size(folder_ / "grid.png"), std::pair(21, 44));
  expect_failure(reconstruct("stretch", "x"), 2, {"--fit"});
}

}  // namespace
}  // namespace nsvq
