// Whose weights a file holds, by the names of its tensors.
#include "nsvq/tokenizer/exchange/foreign_weights.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/formats/safetensors.h"

namespace nsvq {
namespace {

/// A few names of a program's tensors, each of the shape of a 3x3 convolution of 3 channels, and
/// some with shapes of their own.
struct Example {
  std::string layout;
  std::vector<std::string> names;
  NamedShapes shapes = {};
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
  const std::vector<std::string> maskbit = {
      "encoder.down.0.res_blocks.0.conv1.weight", "encoder.down.0.down_conv.weight",
      "encoder.mid.res_blocks.0.conv1.weight", "decoder.up.1.upsample_conv.weight"};
  const std::vector<std::string> magvit2 = {
      "encoder.down.0.block.3.conv1.weight", "encoder.mid_block.3.conv1.weight",
      "decoder.mid_block.3.conv1.weight", "decoder.adaptive.0.gamma.weight"};
  const std::vector<std::string> simvq = {
      "encoder.down.0.block.0.conv1.weight", "encoder.mid_block.0.conv1.weight",
      "decoder.mid_block.0.conv1.weight", "quantize.embedding.weight"};
  return {
      {"taming-transformers' VQGAN", with(taming, {"quantize.embedding.weight"})},
      {"taming-transformers' VQGAN with Gumbel codes",
       with(taming, {"quantize.embed.weight", "quantize.proj.weight"})},
      {"IBQ", with(taming, {"quantize.embedding.weight", "encoder.down.0.block.3.conv1.bias"})},
      {"Chameleon's VQGAN",
       {"encoder.down.0.block.0.conv1.bias", "encoder.down.4.block.0.conv1.bias"},
       {{"quantize.embedding.weight", {8192, 256}}}},
      {"VAR's VQVAE", with(taming, {"quantize.embedding.weight", "quantize.ema_vocab_hit_SV",
                                    "encoder.down.0.block.3.conv1.bias",
                                    "quantize.quant_resi.qresi_ls.3.weight"})},
      {"a VQVAE of several scales",
       with(taming, {"quantize.embedding.weight", "quantize.quant_resi.qresi.weight"})},
      {"Stable Diffusion's AutoencoderKL", taming},
      {"MoVQ", with(taming, {"quantize.embedding.weight", "decoder.norm_out.conv_y.weight"})},
      {"Emu3's vision tokenizer",
       with(taming, {"quantize.embedding.weight", "decoder.norm_out.conv_y.weight",
                     "encoder.time_conv.0.conv.conv.weight"})},
      {"a tokenizer of videos",
       {"encoder.mid_block.0.conv1.weight", "decoder.adaptive.0.gamma.weight"},
       {{"encoder.conv_in.weight", {8, 3, 3, 3, 3}}}},
      {"a tokenizer of videos",
       {"encoder.down.0.block.0.conv1.conv.weight"},
       {{"encoder.conv_in.conv.weight", {8, 3, 3, 3, 3}}}},
      {"Cosmos' tokenizer of images",
       with(taming, {"encoder.patcher.wavelets", "quantizer._levels"}),
       {{"encoder.conv_in.weight", {8, 48, 3, 3}},
        {"quant_conv.weight", {6, 256, 1, 1}},
        {"decoder.conv_out.weight", {48, 8, 3, 3}}}},
      {"Cosmos' encoder",
       {"encoder.down.0.block.0.conv1.bias", "quantizer._levels"},
       {{"encoder.conv_in.weight", {8, 12, 3, 3}}, {"quant_conv.weight", {6, 256, 1, 1}}}},
      {"Cosmos' decoder",
       {"decoder.up.0.block.0.conv1.bias", "inv_quant.quantizer._levels"},
       {{"decoder.conv_out.weight", {48, 8, 3, 3}}, {"post_quant_conv.weight", {256, 6, 1, 1}}}},
      {"Cosmos' continuous tokenizer of images",
       taming,
       {{"encoder.conv_in.weight", {8, 48, 3, 3}},
        {"quant_conv.weight", {16, 16, 1, 1}},
        {"decoder.conv_out.weight", {48, 8, 3, 3}}}},
      {"Cosmos' tokenizer of videos", with(taming, {"encoder.patcher3d.wavelets"})},
      {"Cosmos' tokenizer of videos",
       {"decoder.unpatcher3d._arange", "decoder.up.0.block.0.conv1.conv3d.bias"}},
      {"LlamaGen's VQ",
       {"encoder.conv_blocks.0.res.0.conv1.weight", "encoder.mid.1.q.weight",
        "decoder.conv_blocks.0.res.2.conv1.bias", "quantize.embedding.weight",
        "quantize.codebook_used", "quant_conv.weight"}},
      {"Janus' VQ as transformers has it",
       with(taming, {"quantize.embedding.weight", "decoder.up.0.upsample.conv.weight"})},
      {"GigaTok",
       {"encoder.conv_blocks.0.res.0.conv1.weight", "s2to1encoder.ln_pre.weight",
        "s1to2decoder.ln_pre.weight", "quantize.embedding.weight"}},
      {"GigaTok with a grid of tokens",
       {"encoder.conv_blocks.0.res.0.conv1.weight", "s2dencoder.ln_pre.weight",
        "quantize.embedding.weight"}},
      {"MGVQ",
       {"encoder.stages.0.0.conv1.weight", "quant_conv.weight", "quantize.embedding.weight"}},
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
      {"MaskGIT's VQGAN in MaskBit's names",
       {"encoder.down.0.res_blocks.0.conv1.weight", "encoder.mid.res_blocks.0.conv1.weight",
        "decoder.up.1.upsample_conv.weight", "quantize.embedding.weight"}},
      {"VQGAN+", with(maskbit, {"decoder.up.0.upsample_conv.weight", "quantize.embedding.weight"})},
      {"VQGAN+ with its older decoder", with(maskbit, {"quantize.embedding.weight"})},
      {"MaskBit's tokenizer", with(maskbit, {"decoder.up.0.upsample_conv.weight",
                                             "quantize.bits_to_indices", "quantize.codebook"})},
      {"TiTok",
       {"latent_tokens", "encoder.latent_token_positional_embedding", "decoder.mask_token",
        "encoder.transformer.0.ln_1.weight", "quantize.embedding.weight",
        "pixel_decoder.up.1.upsample_conv.weight"}},
      {"a tokenizer of transformer blocks, such as BAR's",
       {"encoder.transformer.0.ln_1.weight", "decoder.transformer.0.ln_1.weight"}},
      {"a tokenizer of transformer blocks, such as BAR's",
       {"encoder.blocks.0.attn.qkv.weight", "decoder.blocks.0.attn.qkv.weight"}},
      {"Open-MAGVIT2", with(magvit2, {"encoder.down.4.block.0.conv1.weight"})},
      {"Open-MAGVIT2 for images of 128x128", magvit2},
      {"SimVQ", with(simvq, {"quantize.embedding_proj.weight"})},
      {"SimVQ's network with a plain codebook", simvq}};
}

NamedShapes shapes_in(const Example& example, const std::string& prefix) {
  NamedShapes shapes;
  for (const auto& name : example.names) shapes[prefix + name] = {8, 3, 3, 3};
  for (const auto& [name, shape] : example.shapes) shapes[prefix + name] = shape;
  return shapes;
}

const Layout* recognise(const NamedShapes& shapes) {
  return recognise_layout(tokenizer_names(shapes).shapes);
}

TEST(ForeignLayout, EachIsRecognisedBehindAnyWrapper) {
  std::set<std::string> seen;
  for (const auto& example : examples()) {
    seen.insert(example.layout);
    for (const auto* prefix :
         {"", "state_dict.", "module.", "model.", "first_stage_model.", "module._orig_mod."}) {
      SCOPED_TRACE(prefix + example.layout);
      auto shapes = shapes_in(example, prefix);
      shapes["loss.discriminator.main.0.weight"] = {8, 3, 4, 4};
      const auto* layout = recognise(shapes);
      ASSERT_NE(layout, nullptr);
      EXPECT_EQ(layout->name, example.layout);
    }
  }
  for (const auto& layout : known_layouts()) {
    EXPECT_TRUE(seen.contains(layout.name)) << layout.name << " has no example here";
  }
}

TEST(ForeignLayout, SomeAreKnownByTheirShapes) {
  NamedShapes shapes = {{"encoder.down.0.block.0.conv1.bias", {8}}, {"quant_conv.weight", {8}}};
  shapes["encoder.conv_in.weight"] = {128, 48, 3, 3};
  EXPECT_EQ(recognise(shapes)->name, "Cosmos' encoder");
  shapes["encoder.conv_in.weight"] = {48};
  EXPECT_EQ(recognise(shapes)->name, "Stable Diffusion's AutoencoderKL");
  shapes["encoder.conv_in.weight"] = {128, 3, 3, 3};
  shapes["quantize.embedding.weight"] = {8192, 256};
  shapes["encoder.down.4.block.0.conv1.bias"] = {512};
  EXPECT_EQ(recognise(shapes)->name, "Chameleon's VQGAN");
  shapes["encoder.down.4.attn.0.q.weight"] = {512, 512, 1, 1};
  EXPECT_EQ(recognise(shapes)->name, "taming-transformers' VQGAN");
}

TEST(ForeignLayout, OthersAreNot) {
  EXPECT_EQ(recognise({}), nullptr);
  EXPECT_EQ(recognise({{"features.0.weight", {8}}, {"classifier.6.bias", {8}}}), nullptr);
  // nsvq's own names.
  EXPECT_EQ(recognise({{"encoder.down.0.block.0.conv1.weight", {8}},
                       {"encoder.mid.block_1.conv1.weight", {8}},
                       {"decoder.up.0.block.0.conv1.weight", {8}},
                       {"quantizer.codebook", {8, 2}}}),
            nullptr);
}

TEST(ForeignLayout, IsDescribedInALine) {
  for (const auto& layout : known_layouts()) {
    const auto text = describe_layout(layout);
    EXPECT_TRUE(text.starts_with(layout.name + " is recognised; ")) << text;
    EXPECT_EQ(text.ends_with("`nsvq import FILE` makes a model of it"), layout.refused.empty());
    EXPECT_EQ(text.find('\n'), std::string::npos);
    EXPECT_EQ(layout.rules.empty(), !layout.refused.empty()) << layout.name;
  }
}

TEST(TokenizerNames, OfALargerModelAreTheTokenizers) {
  const auto names = tokenizer_names({{"model.vqmodel.encoder.conv_in.weight", {8, 3, 3, 3}},
                                      {"model.vqmodel.quantize.embedding.weight", {8, 2}},
                                      {"model.layers.0.weight", {2}},
                                      {"lm_head.weight", {2}}});
  EXPECT_EQ(names_in(names.shapes),
            (std::vector<std::string>{"encoder.conv_in.weight", "quantize.embedding.weight"}));
  EXPECT_EQ(names.originals.at("encoder.conv_in.weight"), "model.vqmodel.encoder.conv_in.weight");
  EXPECT_EQ(names.outside, (std::map<std::string, int64_t>{{"layers", 1}, {"lm_head", 1}}));
  EXPECT_EQ(names.twice, "");
  const auto diffusion = tokenizer_names({{"first_stage_model.encoder.conv_in.weight", {8}},
                                          {"model.diffusion_model.input.weight", {8}}});
  EXPECT_EQ(names_in(diffusion.shapes), std::vector<std::string>{"encoder.conv_in.weight"});
  EXPECT_EQ(diffusion.outside.at("diffusion_model"), 1);
  EXPECT_EQ(tokenizer_names({{"encoder.a", {1}}, {"module.encoder.a", {1}}}).twice, "encoder.a");
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
