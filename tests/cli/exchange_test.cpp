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

TEST_F(Exchange, ProjectedCodesBecomeTheCodebookOfTheRecipe) {
  auto tensors = as_simvq();
  const auto codes = tensors.at("quantize.embedding.weight");
  const auto weight = at::randn({8, 8}), bias = at::randn({8});
  tensors["quantize.embedding_proj.weight"] = weight;
  tensors["quantize.embedding_proj.bias"] = bias;
  const auto result = import_tensors(tensors);
  ASSERT_EQ(result.code, 0) << result.error;
  expect_contains(result.out, {"folded: SimVQ's projection into its codes\n"});
  const auto codebook = load_model(out_).tokenizer->quantizer->codebook();
  EXPECT_TRUE(at::allclose(codebook, at::linear(codes, weight, bias), 1e-5, 1e-6));
  tensors["quantize.embedding_proj.weight"] = at::randn({8, 7});
  expect_failure(import_tensors(tensors), 2, {"projection"});
}

TEST_F(Exchange, TheAverageByDefaultAndTheLastOnDemand) {
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
  const auto result = import_tensors(tensors);
  ASSERT_EQ(result.code, 0) << result.error;
  EXPECT_EQ(result.error, "");
  expect_contains(result.out, {"1 tensor of loss.*", "moving average (model_ema.*)"});
  expect_same_as_model(out_);
  const auto old = import_tensors(tensors, {"--ema"});
  EXPECT_EQ(old.code, 0) << old.error;
  expect_contains(old.error, {"taken without --ema; --last takes the last weights"});
  expect_same_as_model(out_);
  const auto last = import_tensors(tensors, {"--last"});
  ASSERT_EQ(last.code, 0) << last.error;
  expect_contains(last.out, {"the last weights, not their moving average"});
  EXPECT_EQ(load_model(out_).tokenizer->quantizer->codebook().abs().sum().item<float>(), 0);
  expect_failure(import_tensors(tensors, {"--last", "--ema"}), 2, {"give one of them"});
  tensors.erase("model_ema.encoderconv_inweight");
  expect_failure(import_tensors(tensors), 2, {"encoder.conv_in.weight", "--last"});
}

TEST_F(Exchange, WithoutARecipeNamesAndShapesTell) {
  const auto file = (folder_ / "last.safetensors").string();
  write_safetensors(file, {as_simvq("model."), {}});
  const auto result = run({"import", file, "--size", "24", "--out", out_});
  ASSERT_EQ(result.code, 0) << result.error;
  expect_contains(result.out,
                  {"SimVQ's network with a plain codebook\n", "taken: ", "dropped: nothing\n",
                   "family nsvq, width 8, multipliers 1,2, 1 block; vq of 32 codes of 8 channels; "
                   "images of 24x24 as 12x12 tokens\n"});
  expect_same_as_model(out_);
  EXPECT_EQ(load_model(out_).config.data.size, 24);
  expect_failure(run({"import", file, "--size", "25", "--out", out_, "--force"}), 2, {"25", "2"});
  // Read and written by every command.
  EXPECT_EQ(run({"tokenize", out_, "--data", tiny_config().data.val.text(), "--out",
                 (folder_ / "tokens").string()})
                .code,
            0);
  EXPECT_EQ(run({"info", out_}).code, 0);
}

TEST_F(Exchange, WritesTheLayoutsOfOtherPrograms) {
  const auto recipe = folder_ / "taming.yaml", out = folder_ / "vqvae";
  write_text(recipe,
             "model: {family: taming, width: 32, multipliers: [1, 2], blocks: 1, latent_dim: 4, "
             "mid_attention: true}\nquantizer: {type: vq, codes: 16}\ndata: {size: 16}\n");
  write_model_file(model_, load_config(recipe.string()));
  const auto written = run({"export", model_, "--as", "diffusers", "--out", out});
  ASSERT_EQ(written.code, 0) << written.error;
  expect_contains(written.out, {"diffusion_pytorch_model.safetensors\n", "config.json\n"});
  const auto read = run({"import", out, "--size", "16", "--out", out_});
  ASSERT_EQ(read.code, 0) << read.error;
  expect_contains(read.out, {"diffusers' VQModel"});
  expect_same_as_model(out_);
  const auto refused = run({"export", model_, "--as", "llamagen", "--out", "x.safetensors"});
  expect_failure(refused, 2, {"is not written as llamagen"});
  expect_failure(run({"export", model_, "--as", "taming", "--out", "x.pt"}), 2, {".safetensors"});
  expect_failure(run({"export", model_, "--as", "keras", "--out", "x"}), 2, {"--as", "llamagen"});
  expect_failure(run({"export", model_, "--as", "diffusers", "--out", out}), 2, {"exists"});
}

TEST_F(Exchange, WritesAFolderForTheHub) {
  const auto hub = folder_ / "hub";
  write_text(folder_ / "eval.json", R"({"data": "photos", "images": 3, "psnr": 20})");
  const auto eval = (folder_ / "eval.json").string();
  const auto result = run({"export", model_, "--as", "huggingface", "--eval", eval, "--out", hub});
  ASSERT_EQ(result.code, 0) << result.error;
  expect_same_as_model(hub);
  expect_contains(read_text(hub / "README.md"), {"| PSNR | 20.00 dB |"});
  EXPECT_EQ(nlohmann::json::parse(read_text(hub / "config.json")).at("quantizer").at("codes"), 32);
  expect_failure(run({"export", model_, "--eval", eval, "--out", "m.safetensors"}), 2,
                 {"--eval", "--as huggingface"});
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

TEST_F(Exchange, ARefusedLayoutIsNamedWhateverTheRecipe) {
  auto tensors = as_simvq("model.");
  const auto file = (folder_ / "x.safetensors").string();
  tensors["model.quantize.quant_resi.qresi_ls.0.weight"] = at::zeros({1});
  write_safetensors(file, {tensors, {}});
  for (const auto& words : {std::vector<std::string>{"import", file, "--out", out_},
                            {"import", file, "--recipe", "none.yaml", "--out", out_}}) {
    expect_failure(run(words), 2,
                   {file,
                    "a VQVAE of several scales is recognised; its scales do not share four "
                    "convolutions"});
  }
  expect_failure(run({"import", model_, "--out", out_}), 2, {"its names are nsvq's own"});
}

TEST_F(Exchange, ImportsWhatTwoFilesHoldTogether) {
  TensorMap encoder, decoder;
  for (const auto& [name, tensor] : as_simvq()) {
    (name.starts_with("encoder.") ? encoder : decoder)[name] = tensor;
  }
  const auto first = (folder_ / "a.safetensors").string(),
             second = (folder_ / "b.safetensors").string();
  write_safetensors(first, {encoder, {}});
  write_safetensors(second, {decoder, {}});
  const auto made = run({"import", first, second, "--size", "16", "--out", out_});
  EXPECT_EQ(made.code, 0) << made.error;
  expect_same_as_model(out_);
  expect_contains(made.out, {first + " and " + second + ": SimVQ's network"});
  expect_failure(run({"import", first, "none", "--out", out_}), 2,
                 {"none: neither a file nor key=value"});
  expect_failure(run({"import", first, second, first, "--out", out_}), 2,
                 {second, "more files than an encoder's and a decoder's"});
  expect_failure(run({"import", first, second, "--out", second, "--force"}), 2, {second});
}

TEST_F(Exchange, ImportsAPyTorchFile) {
  // Its only tensors are not a tokenizer's, so all of them are named.
  const auto golden = fs::path(NSVQ_TESTS_DIR) / "../io/golden/pytorch/checkpoint.ckpt";
  expect_failure(run({"import", golden, "--recipe", recipe_, "--out", out_}), 2,
                 {"checkpoint.ckpt", "unexpected: 'bias' [3], 'weight' [3, 2]; missing: "});
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
