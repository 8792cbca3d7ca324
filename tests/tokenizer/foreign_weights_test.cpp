// Whose weights a file holds, by the names of its tensors.
#include "nsvq/tokenizer/foreign_weights.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/formats/safetensors.h"

namespace nsvq {
namespace {

/// A few names of a program's tensors, each of the shape of a 3x3 convolution of 3 channels.
struct Example {
  std::string layout;
  std::vector<std::string> names;
};

std::vector<Example> examples() {
  const std::vector<std::string> taming = {"encoder.conv_in.weight",
                                           "encoder.down.0.block.0.conv1.weight",
                                           "encoder.down.0.block.0.conv1.bias",
                                           "encoder.down.4.attn.0.q.weight",
                                           "encoder.mid.attn_1.q.weight",
                                           "decoder.up.0.block.2.conv1.bias",
                                           "quant_conv.weight",
                                           "post_quant_conv.weight"};
  const auto with = [](std::vector<std::string> names, const std::vector<std::string>& more) {
    names.insert(names.end(), more.begin(), more.end());
    return names;
  };
  return {
      {"taming-transformers' VQGAN", with(taming, {"quantize.embedding.weight"})},
      {"taming-transformers' VQGAN with Gumbel codes",
       with(taming, {"quantize.embed.weight", "quantize.proj.weight"})},
      {"IBQ", with(taming, {"quantize.embedding.weight", "encoder.down.0.block.3.conv1.bias"})},
      {"VAR's multi-scale VQVAE",
       with(taming, {"quantize.embedding.weight", "quantize.quant_resi.qresi_ls.0.weight",
                     "quantize.ema_vocab_hit_SV"})},
      {"Stable Diffusion's AutoencoderKL", taming},
      {"MoVQ", with(taming, {"quantize.embedding.weight", "decoder.norm_out.conv_y.weight"})},
      {"Emu3's vision tokenizer",
       with(taming, {"quantize.embedding.weight", "decoder.norm_out.conv_y.weight",
                     "encoder.time_conv.0.conv.conv.weight"})},
      {"Cosmos' tokenizer", with(taming, {"encoder.patcher.wavelets"})},
      {"Cosmos' tokenizer",
       {"decoder.unpatcher._arange", "decoder.up.0.block.0.conv1.bias", "post_quant_conv.weight"}},
      {"LlamaGen's VQ",
       {"encoder.conv_blocks.0.res.0.conv1.weight", "encoder.mid.1.q.weight",
        "decoder.conv_blocks.0.res.2.conv1.bias", "quantize.embedding.weight",
        "quantize.codebook_used", "quant_conv.weight"}},
      {"diffusers' VQModel",
       {"encoder.down_blocks.0.resnets.0.conv1.weight", "decoder.up_blocks.0.resnets.0.conv1.bias",
        "quantize.embedding.weight", "quant_conv.weight"}},
      {"MoVQ (diffusers' VQModel)",
       {"encoder.down_blocks.0.resnets.0.conv1.weight", "decoder.conv_norm_out.conv_y.weight",
        "quantize.embedding.weight"}},
      {"diffusers' AutoencoderKL",
       {"encoder.down_blocks.0.resnets.0.conv1.weight", "decoder.up_blocks.0.resnets.0.conv1.bias",
        "quant_conv.weight"}},
      {"MaskGIT's VQGAN",
       {"encoder.down.0.block.0.conv1.weight", "encoder.mid.0.conv1.weight",
        "decoder.up.1.upsample_conv.weight", "quantize.embedding.weight"}},
      {"TiTok",
       {"latent_tokens", "encoder.latent_token_positional_embedding", "decoder.mask_token",
        "encoder.transformer.0.ln_1.weight", "quantize.embedding.weight",
        "pixel_decoder.up.1.upsample_conv.weight"}},
      {"Open-MAGVIT2",
       {"encoder.down.0.block.3.conv1.weight", "encoder.mid_block.3.conv1.weight",
        "decoder.mid_block.3.conv1.weight", "decoder.adaptive.0.gamma.weight"}},
      {"SimVQ",
       {"encoder.down.0.block.0.conv1.weight", "encoder.mid_block.0.conv1.weight",
        "decoder.mid_block.0.conv1.weight", "quantize.embedding.weight",
        "quantize.embedding_proj.weight"}}};
}

NamedShapes shapes_of(const std::vector<std::string>& names, const std::string& prefix = "") {
  NamedShapes shapes;
  for (const auto& name : names) shapes[prefix + name] = {8, 3, 3, 3};
  return shapes;
}

TEST(ForeignLayout, EachIsRecognisedBehindAnyWrapper) {
  std::set<std::string> seen;
  for (const auto& example : examples()) {
    seen.insert(example.layout);
    for (const auto* prefix :
         {"", "state_dict.", "module.", "model.", "first_stage_model.", "module._orig_mod."}) {
      SCOPED_TRACE(prefix + example.layout);
      auto shapes = shapes_of(example.names, prefix);
      shapes["loss.discriminator.main.0.weight"] = {8, 3, 4, 4};
      const auto* layout = recognise_layout(shapes);
      ASSERT_NE(layout, nullptr);
      EXPECT_EQ(layout->name, example.layout);
      EXPECT_EQ(layout->importable, example.layout == "SimVQ");
    }
  }
  for (const auto& layout : foreign_layouts()) {
    EXPECT_TRUE(seen.contains(layout.name)) << layout.name << " has no example here";
  }
}

TEST(ForeignLayout, CosmosIsKnownByItsChannels) {
  auto shapes = shapes_of({"encoder.down.0.block.0.conv1.bias", "quant_conv.weight"});
  shapes["encoder.conv_in.weight"] = {128, 48, 3, 3};
  EXPECT_EQ(recognise_layout(shapes)->name, "Cosmos' tokenizer");
  shapes["encoder.conv_in.weight"] = {48};
  EXPECT_EQ(recognise_layout(shapes)->name, "Stable Diffusion's AutoencoderKL");
}

TEST(ForeignLayout, OthersAreNot) {
  EXPECT_EQ(recognise_layout({}), nullptr);
  EXPECT_EQ(recognise_layout(shapes_of({"features.0.weight", "classifier.6.bias"})), nullptr);
  // nsvq's own names.
  EXPECT_EQ(recognise_layout(shapes_of(
                {"encoder.down.0.block.0.conv1.weight", "encoder.mid.block_1.conv1.weight",
                 "decoder.up.0.block.0.conv1.weight", "quantizer.codebook"})),
            nullptr);
}

TEST(ForeignLayout, IsDescribedInALine) {
  for (const auto& layout : foreign_layouts()) {
    const auto text = describe_layout(layout);
    EXPECT_NE(text.find(layout.name + " is recognised; its backbone is "), std::string::npos);
    EXPECT_EQ(text.ends_with("not supported yet"), !layout.importable) << text;
  }
}

TEST(ForeignWeights, AreReadFromSafetensors) {
  const TemporaryFolder folder;
  const auto path = folder / "x.safetensors";
  write_safetensors(path, {{{"a", at::zeros({2, 3})}, {"b", at::zeros({})}}, {}});
  const auto weights = read_foreign_shapes(path);
  EXPECT_EQ(weights.part, "");
  EXPECT_EQ(weights.shapes, (NamedShapes{{"a", {2, 3}}, {"b", {}}}));
  EXPECT_EQ(read_foreign_tensors(path).size(), 2u);
}

}  // namespace
}  // namespace nsvq
