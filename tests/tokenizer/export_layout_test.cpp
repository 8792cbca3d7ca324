// Models in the layouts of other programs.
#include "nsvq/tokenizer/exchange/export_layout.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <tuple>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/tokenizer/exchange/import_weights.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/tokenizer/foreign_models.h"

namespace nsvq {
namespace {

LoadedModel loaded(const TokenizerConfig& config) {
  return {config, random_tokenizer(config), "model.safetensors"};
}

/// taming's networks of two levels, width 32, with these settings besides.
TokenizerConfig small_taming(const std::vector<std::string>& more = {}) {
  std::vector<std::string> settings = {"model.family=taming",      "model.width=32",
                                       "model.multipliers=[1, 2]", "model.blocks=1",
                                       "model.mid_attention=true", "model.latent_dim=6",
                                       "quantizer.type=vq",        "quantizer.codes=20"};
  for (const auto& setting : more) {  // in place of one with the same key
    const auto key = setting.substr(0, setting.find('=') + 1);
    std::erase_if(settings, [&](const auto& other) { return other.starts_with(key); });
    settings.push_back(setting);
  }
  return load_config("", settings);
}

std::string error_as(const std::string& program, const std::vector<std::string>& settings) {
  return error_of([&] { with_their_names(loaded(small_taming(settings)), program); });
}

TEST(ExportLayout, IsReadBackAsTheSameModel) {
  const TemporaryFolder folder;
  for (const auto& model : foreign_models()) {
    SCOPED_TRACE(model.layout);
    std::string program;
    if (model.layout.starts_with("taming")) program = "taming";
    if (model.layout == "LlamaGen's VQ") program = "llamagen";
    if (model.layout == "diffusers' VQModel") program = "diffusers";
    if (program.empty()) continue;
    const auto written = with_their_names(loaded(model.config), program);
    for (const auto& [name, tensor] : in_layout(model)) {
      ASSERT_TRUE(written.contains(name)) << name;
      EXPECT_TRUE(at::equal(written.at(name), tensor)) << name;
    }
    const auto out =
        program == "diffusers" ? folder / "vqvae" : folder / (program + ".safetensors");
    write_in_layout(loaded(model.config), program, out);
    const auto made = import_model({out, "", {}, false});
    EXPECT_EQ(to_yaml(made.config), to_yaml(model.config));
  }
  const auto json = nlohmann::json::parse(read_text(folder / "vqvae/config.json"));
  EXPECT_EQ(json.at("block_out_channels"), nlohmann::json({32, 64, 96}));
  EXPECT_EQ(json.at("down_block_types").at(0), "DownEncoderBlock2D");
  EXPECT_EQ(json.at("up_block_types"),
            nlohmann::json({"AttnUpDecoderBlock2D", "AttnUpDecoderBlock2D", "UpDecoderBlock2D"}));
  EXPECT_EQ(json.at("mid_block_add_attention"), false);
  EXPECT_EQ(json.at("num_vq_embeddings"), 20);
  EXPECT_EQ(json.at("latent_channels"), 6);
}

/// Lines "NAME TYPE SIZES" of a public checkpoint.
std::vector<std::string> stored_names(const std::string& checkpoint) {
  const auto text =
      read_text(std::filesystem::path(NSVQ_TESTS_DIR) / "names" / (checkpoint + ".txt"));
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

TEST(ExportLayout, HasNamesTypesAndSizesOfPublicCheckpoints) {
  const std::string configs = NSVQ_TESTS_DIR "/../../configs/";
  for (const auto& [program, checkpoint, config] :
       {std::tuple{"taming", "vqgan-f16-16384", load_config(configs + "taming-f16.yaml", {})},
        std::tuple{"llamagen", "vq_ds16_c2i", load_config(configs + "llamagen-vq16.yaml", {})}}) {
    SCOPED_TRACE(checkpoint);
    std::vector<std::string> lines;
    for (const auto& [name, tensor] : with_their_names(loaded(config), program)) {
      EXPECT_EQ(tensor.scalar_type(), at::kFloat) << name;
      lines.push_back(fmt::format("{} float32 {}", name, fmt::join(tensor.sizes().vec(), "x")));
    }
    EXPECT_EQ(lines, stored_names(checkpoint));
  }
}

TEST(ExportLayout, CodesThatAreMadeBecomeATable) {
  const auto model = loaded(small_taming({"quantizer.type=simvq"}));
  const auto written = with_their_names(model, "taming");
  EXPECT_TRUE(at::equal(written.at("quantize.embedding.weight"),
                        model.tokenizer->quantizer->code_vectors()));
  EXPECT_FALSE(written.contains("quantize.embedding_proj.weight"));
}

TEST(ExportLayout, CodesOfNorm1ChooseTheSameTokensByDistance) {
  const auto model = loaded(small_taming({"quantizer.normalise=true"}));
  const auto codes = with_their_names(model, "diffusers").at("quantize.embedding.weight");
  EXPECT_TRUE(at::allclose(codes.norm(2, 1), at::ones({20}), 1e-5, 1e-6));
  torch::manual_seed(1);
  const auto latents = at::randn({1, 6, 8, 8}) * 3;
  const auto rows = latents.permute({0, 2, 3, 1}).reshape({-1, 6});
  EXPECT_TRUE(at::equal(model.tokenizer->quantizer->encode(latents).flatten(),
                        at::cdist(rows, codes).argmin(1)));
}

TEST(ExportLayout, LlamaGensHasItsRingBuffer) {
  const auto written = with_their_names(
      loaded(small_taming({"quantizer.normalise=true", "model.attention=[1]"})), "llamagen");
  EXPECT_EQ(written.at("quantize.codebook_used").sizes(), at::IntArrayRef({65536}));
}

TEST(ExportLayout, NetworksThatAProgramHasNotAreRefused) {
  TokenizerConfig ours;
  ours.model.width = 8;
  ours.model.multipliers = {1, 2};
  ours.quantizer.codes = 16;
  for (const auto& program : layouts_to_write()) {
    expect_contains(error_of([&] { with_their_names(loaded(ours), program); }),
                    {"model.safetensors", "model.family is nsvq", "is not written as " + program});
  }
  const std::vector<std::string> llamagen = {"quantizer.normalise=true"};
  expect_contains(error_as("taming", {"model.latent_kernel=3"}), {"model.latent_kernel is 3"});
  expect_contains(error_as("taming", {"model.width=16"}), {"32 groups"});
  expect_contains(error_as("taming", {"model.mid_attention=false"}), {"model.mid_attention"});
  expect_contains(error_as("taming", {"model.colors=opponent"}), {"model.colors is opponent"});
  expect_contains(error_as("llamagen", llamagen), {"model.attention is not [1]"});
  expect_contains(error_as("llamagen", {"model.attention=[1]"}), {"quantizer.normalise"});
  EXPECT_EQ(with_their_names(loaded(small_taming({"model.mid_attention=false"})), "diffusers")
                .contains("encoder.mid_block.attentions.0.to_q.weight"),
            false);
}

TEST(ExportLayout, TokensThatAreNoNearestCodesAreRefused) {
  for (const std::string type : {"lfq", "fsq", "factorised", "gumbel", "ibq", "none"}) {
    SCOPED_TRACE(type);
    std::vector<std::string> settings = {"quantizer.type=" + type};
    if (type == "lfq") settings.emplace_back("quantizer.lfq.bits=6");
    expect_contains(error_as("diffusers", settings), {"tokens of quantizer.type " + type});
  }
  EXPECT_TRUE(with_their_names(loaded(small_taming({"quantizer.type=gumbel"})), "taming")
                  .contains("quantize.proj.weight"));
  EXPECT_TRUE(with_their_names(loaded(small_taming({"quantizer.type=ibq"})), "taming")
                  .contains("quantize.embedding.weight"));
  expect_contains(error_of([&] { files_in_layout("taming", "x.pt"); }), {"x.pt", ".safetensors"});
  expect_contains(error_of([&] { with_their_names(loaded(small_taming()), "tamin"); }),
                  {"--as", "did you mean 'taming'"});
}

}  // namespace
}  // namespace nsvq
