// Names of other programs and ours.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "nsvq/tokenizer/layouts/layout.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/tokenizer/foreign_models.h"

namespace nsvq {
namespace {

/// Names as the programs' own files have them.
struct Pair {
  std::string theirs, ours;
};

void expect_pairs(const std::string& layout, const std::vector<Pair>& pairs) {
  SCOPED_TRACE(layout);
  const auto& rules = find_layout(layout).rules;
  std::vector<std::string> theirs, ours;
  for (const auto& pair : pairs) theirs.push_back(pair.theirs), ours.push_back(pair.ours);
  const Renaming to_ours(rules, Side::theirs, theirs), to_theirs(rules, Side::ours, ours);
  for (const auto& pair : pairs) {
    EXPECT_EQ(to_ours(pair.theirs).value().name, pair.ours);
    EXPECT_EQ(to_theirs(pair.ours).value().name, pair.theirs);
  }
}

TEST(LayoutNames, AreThoseOfThePrograms) {
  expect_pairs(
      "taming-transformers' VQGAN",
      {{"encoder.down.0.block.1.nin_shortcut.weight", "encoder.down.0.block.1.nin_shortcut.weight"},
       {"encoder.down.3.downsample.conv.bias", "encoder.down.3.downsample.bias"},
       {"encoder.mid.attn_1.proj_out.weight", "encoder.mid.attn_1.proj_out.weight"},
       {"decoder.up.4.attn.2.q.weight", "decoder.up.4.attn.2.q.weight"},
       {"decoder.up.1.upsample.conv.weight", "decoder.up.1.upsample.weight"},
       {"quant_conv.weight", "encoder.quant_conv.weight"},
       {"post_quant_conv.bias", "decoder.post_quant_conv.bias"},
       {"quantize.embedding.weight", "quantizer.codebook"}});
  expect_pairs("taming-transformers' VQGAN with Gumbel codes",
               {{"quantize.embed.weight", "quantizer.codebook"},
                {"quantize.proj.weight", "quantizer.projection.weight"},
                {"quantize.proj.bias", "quantizer.projection.bias"}});
  expect_pairs(
      "LlamaGen's VQ",
      {{"encoder.conv_blocks.0.res.1.norm1.weight", "encoder.down.0.block.1.norm1.weight"},
       {"encoder.conv_blocks.4.attn.0.v.bias", "encoder.down.4.attn.0.v.bias"},
       {"encoder.mid.0.conv1.weight", "encoder.mid.block_1.conv1.weight"},
       {"encoder.mid.1.k.weight", "encoder.mid.attn_1.k.weight"},
       {"decoder.mid.2.conv2.bias", "decoder.mid.block_2.conv2.bias"},
       {"decoder.conv_blocks.0.res.2.conv1.weight", "decoder.up.4.block.2.conv1.weight"},
       {"decoder.conv_blocks.0.attn.2.norm.weight", "decoder.up.4.attn.2.norm.weight"},
       {"decoder.conv_blocks.3.upsample.conv.weight", "decoder.up.1.upsample.weight"},
       {"decoder.conv_blocks.4.res.0.nin_shortcut.bias", "decoder.up.0.block.0.nin_shortcut.bias"},
       {"quantize.embedding.weight", "quantizer.codebook"}});
  expect_pairs(
      "diffusers' VQModel",
      {{"encoder.down_blocks.1.resnets.0.conv_shortcut.weight",
        "encoder.down.1.block.0.nin_shortcut.weight"},
       {"encoder.down_blocks.2.attentions.1.to_q.weight", "encoder.down.2.attn.1.q.weight"},
       {"encoder.down_blocks.2.attentions.1.to_out.0.bias", "encoder.down.2.attn.1.proj_out.bias"},
       {"encoder.down_blocks.0.downsamplers.0.conv.weight", "encoder.down.0.downsample.weight"},
       {"encoder.mid_block.resnets.1.norm2.bias", "encoder.mid.block_2.norm2.bias"},
       {"decoder.mid_block.attentions.0.group_norm.weight", "decoder.mid.attn_1.norm.weight"},
       {"decoder.up_blocks.0.resnets.2.conv1.bias", "decoder.up.2.block.2.conv1.bias"},
       {"decoder.up_blocks.1.upsamplers.0.conv.bias", "decoder.up.1.upsample.bias"},
       {"decoder.up_blocks.2.resnets.0.conv2.weight", "decoder.up.0.block.0.conv2.weight"},
       {"encoder.conv_norm_out.weight", "encoder.norm_out.weight"}});
  expect_pairs("MaskGIT's VQGAN",
               {{"encoder.mid.0.conv1.weight", "encoder.mid.block_1.conv1.weight"},
                {"decoder.mid.1.norm2.bias", "decoder.mid.block_2.norm2.bias"},
                {"decoder.up.3.upsample_conv.bias", "decoder.up.3.upsample.bias"},
                {"encoder.down.2.block.0.nin_shortcut.weight",
                 "encoder.down.2.block.0.nin_shortcut.weight"}});
  expect_pairs("MaskBit's tokenizer",
               {{"encoder.mid.res_blocks.0.conv1.weight", "encoder.mid.block_1.conv1.weight"},
                {"encoder.down.0.down_conv.bias", "encoder.down.0.downsample.bias"},
                {"decoder.up.0.upsample_conv.bias", "decoder.up.4.upsample.bias"},
                {"decoder.up.4.res_blocks.1.nin_shortcut.weight",
                 "decoder.up.0.block.1.nin_shortcut.weight"}});
  expect_pairs("Open-MAGVIT2",
               {{"encoder.mid_block.3.conv1.weight", "encoder.mid.block_4.conv1.weight"},
                {"encoder.down.1.downsample.weight", "encoder.down.1.downsample.weight"},
                {"decoder.adaptive.2.gamma.bias", "decoder.adaptive.2.gamma.bias"},
                {"decoder.up.2.upsample.conv1.weight", "decoder.up.2.upsample.weight"}});
  expect_pairs("Cosmos' tokenizer of images",
               {{"encoder.down.0.downsample.conv.weight", "encoder.down.0.downsample.weight"},
                {"encoder.mid.attn_1.q.bias", "encoder.mid.attn_1.q.bias"},
                {"decoder.up.2.upsample.conv.bias", "decoder.up.2.upsample.bias"},
                {"post_quant_conv.weight", "decoder.post_quant_conv.weight"}});
  expect_pairs("SimVQ", {{"decoder.mid_block.1.norm1.bias", "decoder.mid.block_2.norm1.bias"},
                         {"quantize.embedding_proj.bias", "quantizer.projection.bias"}});
}

TEST(LayoutNames, OfOldDiffusersBecomeThePresentOnes) {
  const auto& rules = find_layout("diffusers' VQModel").rules;
  const std::string old = "encoder.mid_block.attentions.0.proj_attn.weight";
  const Renaming to_ours(rules, Side::theirs, {old});
  const auto ours = to_ours(old).value();
  EXPECT_EQ(ours.name, "encoder.mid.attn_1.proj_out.weight");
  const Renaming to_theirs(rules, Side::ours, {ours.name});
  EXPECT_EQ(to_theirs(ours.name).value().name, "encoder.mid_block.attentions.0.to_out.0.weight");
}

TEST(LayoutNames, ThatNoRuleHasAreNone) {
  const Renaming to_ours(find_layout("LlamaGen's VQ").rules, Side::theirs, {});
  for (const auto* name : {"", "encoder", "encoder.conv_blocks.x.res.0.conv1.weight",
                           "encoder.conv_blocks..res.0.conv1.weight", "quantize.embedding.weights",
                           "encoder.conv_blocks.0000000000.res.0.conv1.weight"}) {
    EXPECT_FALSE(to_ours(name)) << name;
  }
}

TEST(LayoutNames, EveryRuleHasTheSameWildcardsOnBothSides) {
  const auto wildcards = [](std::string pattern) {
    std::erase_if(pattern, [](char c) { return std::string("#+~*").find(c) == std::string::npos; });
    return pattern;
  };
  for (const auto& layout : known_layouts()) {
    for (const auto& rule : layout.rules) {
      EXPECT_EQ(wildcards(rule.theirs), wildcards(rule.ours)) << layout.name << ": " << rule.theirs;
    }
  }
}

TEST(LayoutForms, LinearLayersAndConvolutions) {
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(sizes_on(Side::ours, Form::linear_there, {4, 3}), (Sizes{4, 3, 1, 1}));
  EXPECT_EQ(sizes_on(Side::theirs, Form::linear_there, {4, 3, 1, 1}), (Sizes{4, 3}));
  EXPECT_EQ(sizes_on(Side::ours, Form::linear_here, {4, 3, 1, 1}), (Sizes{4, 3}));
  EXPECT_EQ(sizes_on(Side::theirs, Form::linear_here, {4, 3}), (Sizes{4, 3, 1, 1}));
  EXPECT_EQ(sizes_on(Side::ours, Form::linear_there, {4}), (Sizes{4}));
  EXPECT_EQ(sizes_on(Side::ours, Form::linear_here, {4, 3, 3, 3}), (Sizes{4, 3, 3, 3}));
  EXPECT_EQ(sizes_on(Side::ours, Form::same, {4, 3, 1, 1}), (Sizes{4, 3, 1, 1}));
}

TEST(Inferred, SettingsNeedTheirTensors) {
  const auto model = foreign_models().at(0);
  const auto shapes = shapes_of(named_tensors(*random_tokenizer(model.config)));
  const auto& layout = find_layout(model.layout);
  const auto error_without = [&](const std::string& name) {
    auto fewer = shapes;
    fewer.erase(name);
    return error_of([&] { inferred_settings(layout, fewer, "x.ckpt"); });
  };
  expect_contains(error_without("decoder.conv_in.weight"), {"x.ckpt", "no decoder"});
  expect_contains(error_without("encoder.conv_in.weight"),
                  {"x.ckpt", "'encoder.conv_in.weight' is missing"});
  auto odd = shapes;
  odd["encoder.conv_in.weight"] = {32};
  expect_contains(error_of([&] { inferred_settings(layout, odd, "x.ckpt"); }),
                  {"'encoder.conv_in.weight' of sizes [32]"});
  odd["encoder.conv_in.weight"] = {31, 3, 3, 3};
  expect_contains(error_of([&] { inferred_settings(layout, odd, "x.ckpt"); }),
                  {"level 0 has 32 channels", "the 31 of encoder.conv_in"});
}

TEST(Inferred, ANetworkThatLacksALayerIsNotOneOfOtherLevels) {
  const auto model = foreign_models().at(0);
  auto shapes = shapes_of(named_tensors(*random_tokenizer(model.config)));
  shapes.erase("decoder.up.1.upsample.weight");
  for (const auto& line : inferred_settings(find_layout(model.layout), shapes, "x.ckpt")) {
    EXPECT_FALSE(line.starts_with("model.halvings")) << line;
  }
}

TEST(NearestLayout, NamesWhatDiffers) {
  auto shapes = shapes_of(in_layout(foreign_models().at(4)));
  shapes.erase("quantize.embedding.weight");
  shapes["quantize.table"] = {20, 6};
  EXPECT_EQ(nearest_layout(shapes),
            "the nearest is LlamaGen's VQ, which has no 'quantize.table' "
            "[20, 6]");
  shapes.erase("quantize.table");
  EXPECT_EQ(nearest_layout(shapes),
            "the nearest is LlamaGen's VQ, of which it lacks 'quantize.embedding.weight'");
  expect_contains(nearest_layout({{"features.0.weight", {8, 3, 3, 3}}}), {"no tensor is named"});
}

}  // namespace
}  // namespace nsvq
