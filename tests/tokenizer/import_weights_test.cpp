// Models of other programs' weights.
#include "nsvq/tokenizer/exchange/import_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/tokenizer/foreign_models.h"

namespace nsvq {
namespace {

class ImportWeights : public testing::Test {
 protected:
  ImportedModel import_tensors(const TensorMap& tensors,
                               const std::vector<std::string>& overrides = {}, bool last = false) {
    return import_model({write_tensors(file_, tensors), "", overrides, last});
  }
  std::string import_error(const TensorMap& tensors,
                           const std::vector<std::string>& overrides = {}) {
    return error_of([&] { import_tensors(tensors, overrides); });
  }

  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_ / "theirs.safetensors";
};

void expect_equal(const Tokenizer& found, const Tokenizer& expected) {
  const auto ours = named_tensors(*found), theirs = named_tensors(*expected);
  ASSERT_EQ(ours.size(), theirs.size());
  for (const auto& [name, tensor] : theirs) {
    ASSERT_TRUE(ours.contains(name)) << name;
    EXPECT_TRUE(at::equal(ours.at(name), tensor)) << name;
  }
}

std::string joined_notes(const ImportedModel& made) {
  std::string text;
  for (const auto& note : made.notes) text += note + "\n";
  return text;
}

TEST_F(ImportWeights, OfEveryLayoutMakeTheModelThatTheyWereOf) {
  std::vector<std::string> seen;
  for (const auto& model : foreign_models()) {
    SCOPED_TRACE(model.layout);
    seen.push_back(model.layout);
    const auto made = import_tensors(in_layout(model));
    EXPECT_EQ(to_yaml(made.config), to_yaml(model.config));
    expect_equal(made.tokenizer, random_tokenizer(model.config));
    expect_contains(made.notes.at(0), {model.layout});
  }
  for (const auto& layout : known_layouts()) {
    if (!layout.refused.empty()) continue;
    EXPECT_NE(std::ranges::find(seen, layout.name), seen.end()) << layout.name << " has no model";
  }
}

TEST_F(ImportWeights, BehindPrefixesAndWithinLargerModels) {
  const auto model = foreign_models().at(0);
  for (const auto* prefix : {"module.", "state_dict.", "model._orig_mod.", "first_stage_model.",
                             "model.vqmodel.", "gen_vision_model."}) {
    SCOPED_TRACE(prefix);
    auto tensors = in_layout(model, prefix);
    const bool larger = std::string(prefix).find("model.") != std::string::npos &&
                        std::string(prefix) != "model._orig_mod.";
    if (larger) tensors["language_model.layers.0.weight"] = at::zeros({2});
    const auto made = import_tensors(tensors);
    expect_equal(made.tokenizer, random_tokenizer(model.config));
    if (larger) expect_contains(joined_notes(made), {"1 tensor of language_model.*"});
  }
}

TEST_F(ImportWeights, SayWhatWasTakenAndDropped) {
  auto tensors = in_layout(foreign_models().at(4));
  const auto count = std::to_string(tensors.size());
  tensors["quantize.codebook_used"] = at::zeros({65536});
  tensors["loss.discriminator.main.0.weight"] = at::zeros({3});
  tensors["loss.logvar"] = at::zeros({});
  const auto made = import_tensors(tensors, {"data.size=64"});
  EXPECT_EQ(joined_notes(made),
            file_.string() + ": LlamaGen's VQ\n" + "taken: " + count +
                " tensors, the last weights; there is no moving average\n"
                "dropped: 2 tensors of loss.*, quantize.codebook_used\n"
                "model: family taming, width 32, multipliers 1,2,1, 2 blocks; vq of 20 codes of 6 "
                "channels; images of 64x64 as 16x16 tokens\n");
  EXPECT_EQ(made.config.data.size, 64);
}

TEST_F(ImportWeights, SettingsOfTheCommandLineComeLast) {
  const auto model = foreign_models().at(0);
  const auto made = import_tensors(in_layout(model), {"quantizer.type=nsvq", "train.epochs=3"});
  EXPECT_EQ(made.config.quantizer.type, "nsvq");
  EXPECT_EQ(made.config.train.epochs, 3);
  EXPECT_EQ(made.config.model.z_channels, 10);
  expect_contains(import_error(in_layout(model), {"data.size=130"}), {"data.size 130", "4"});
}

class Averaged : public ImportWeights {
 protected:
  /// SimVQ's tensors of zeros with their averages as LitEma stores them: its codes have none.
  TensorMap averaged_tensors() const {
    auto tensors = in_layout(model_);
    const auto trained = tensors;
    for (const auto& [name, tensor] : trained) {
      if (name == "quantize.embedding.weight") continue;
      auto undotted = name;
      std::erase(undotted, '.');
      tensors["model_ema." + undotted] = tensor;
      tensors[name] = at::zeros_like(tensor);
    }
    tensors["model_ema.decay"] = at::ones({});
    return tensors;
  }

  ForeignModel model_ = foreign_models().at(10);
};

TEST_F(Averaged, WeightsAreTakenWhereThereAreAny) {
  const auto made = import_tensors(averaged_tensors());
  expect_equal(made.tokenizer, random_tokenizer(model_.config));
  expect_contains(joined_notes(made), {"their moving average (model_ema.*)", "--last takes"});
}

TEST_F(Averaged, LastOnesOnDemand) {
  const auto made = import_tensors(averaged_tensors(), {}, true);
  EXPECT_TRUE(at::equal(made.tokenizer->encoder->named_parameters()["conv_in.weight"],
                        at::zeros({8, 3, 3, 3})));
  expect_contains(joined_notes(made),
                  {"the last weights, not their moving average", "model_ema.*"});
}

TEST_F(Averaged, OnesThatLackATensorAreRefused) {
  auto tensors = averaged_tensors();
  tensors.erase("model_ema.encoderconv_inweight");
  expect_contains(import_error(tensors), {"no moving average of 'encoder.conv_in.weight'",
                                          "model_ema.*", "--last takes the last weights"});
}

TEST_F(ImportWeights, ProjectedCodesStayForSimvqAndFoldForOthers) {
  const auto model = foreign_models().at(10);
  const auto tensors = in_layout(model);
  const auto simvq = random_tokenizer(model.config);
  const auto folded = import_tensors(tensors, {"quantizer.type=vq"});
  EXPECT_TRUE(at::allclose(folded.tokenizer->quantizer->codebook(),
                           simvq->quantizer->code_vectors(), 1e-5, 1e-6));
  expect_contains(joined_notes(folded), {"folded: SimVQ's projection into its codes"});
  auto wrong = tensors;
  wrong["quantize.embedding_proj.weight"] = at::randn({6, 5});
  expect_contains(import_error(wrong, {"quantizer.type=vq"}), {"projection does not fit"});
}

TEST_F(ImportWeights, ThatFitNoLayoutAreRefusedByName) {
  const auto taming = in_layout(foreign_models().at(0));
  auto tensors = taming;
  tensors["quantize.quant_resi.qresi_ls.0.weight"] = at::zeros({6, 6, 3, 3});
  expect_contains(import_error(tensors), {"a VQVAE of several scales is recognised",
                                          "its scales do not share four convolutions"});
  tensors = taming;
  tensors["encoder.down.0.block.0.conv_shortcut.weight"] = at::zeros({32, 32, 3, 3});
  tensors.erase("decoder.norm_out.bias");
  expect_contains(import_error(tensors),
                  {"not quite taming-transformers' VQGAN",
                   "unexpected: 'encoder.down.0.block.0.conv_shortcut.weight' [32, 32, 3, 3]",
                   "missing: 'decoder.norm_out.bias' [32]"});
  tensors = taming;
  std::erase_if(tensors, [](const auto& row) { return row.first.starts_with("decoder."); });
  expect_contains(import_error(tensors), {"no decoder in it"});
  expect_contains(import_error({{"features.0.weight", at::zeros({8, 3, 3, 3})}}),
                  {"its layout is not known", "no tensor is named"});
  const auto own = named_tensors(*random_tokenizer(foreign_models().at(11).config));
  expect_contains(import_error(own), {"its names are nsvq's own"});
  tensors = taming;
  tensors["module.encoder.conv_in.weight"] = at::zeros({1});
  expect_contains(import_error(tensors), {"two tensors are 'encoder.conv_in.weight'"});
}

/// VAR's tensors with its attention as it stores it: queries, keys and values in one.
TensorMap with_fused_attention(TensorMap tensors) {
  const auto parts = tensors;
  for (const auto& [name, tensor] : parts) {
    const size_t at = name.find(".q.");
    if (at == std::string::npos) continue;
    const auto named = [&, whole = name](const std::string& layer) {
      auto other = whole;
      return other.replace(at, 3, layer);
    };
    tensors[named(".qkv.")] = at::cat({tensor, parts.at(named(".k.")), parts.at(named(".v."))});
    for (const auto* layer : {".q.", ".k.", ".v."}) tensors.erase(named(layer));
  }
  return tensors;
}

TEST_F(ImportWeights, OfFusedAttentionArePartedAndCountsDropped) {
  const auto model = foreign_models().at(12);
  auto tensors = with_fused_attention(in_layout(model));
  ASSERT_TRUE(tensors.contains("decoder.up.4.attn.1.qkv.bias"));
  tensors["quantize.ema_vocab_hit_SV"] = at::zeros({10, 20});
  const auto made = import_tensors(tensors);
  expect_equal(made.tokenizer, random_tokenizer(model.config));
  expect_contains(joined_notes(made),
                  {"VAR's VQVAE", "dropped: quantize.ema_vocab_hit_SV",
                   "var of 20 codes of 6 channels; images of 256x256 as 680 tokens at 10 scales"});
  expect_contains(import_error(tensors, {"data.size=128"}),
                  {"quantizer.var.scales end with grids of 16x16", "8x8"});
  tensors["encoder.mid.attn_1.qkv.bias"] = at::zeros({95});
  expect_contains(import_error(tensors), {"'encoder.mid.attn_1.qkv.bias'", "[95]", "queries"});
}

TEST_F(ImportWeights, OfHostileShapesAreRefused) {
  const auto good = in_layout(foreign_models().at(0));
  const auto error_with = [&](const std::string& name, std::vector<int64_t> sizes) {
    auto tensors = good;
    tensors[name] = at::zeros(sizes);
    return import_error(tensors);
  };
  expect_contains(error_with("encoder.conv_in.weight", {}),
                  {"'encoder.conv_in.weight' of sizes []"});
  expect_contains(error_with("encoder.conv_in.weight", {0, 3, 3, 3}), {"of sizes [0, 3, 3, 3]"});
  expect_contains(error_with("encoder.conv_in.weight", {1, 3, 3, 3}),
                  {"theirs.safetensors", "not quite", "missing", "nin_shortcut"});
  expect_contains(error_with("quantize.embedding.weight", {20}), {"of sizes [20]"});
  expect_contains(error_with("encoder.norm_out.bias", {31}), {"norm_out.bias", "[31]"});
  auto tensors = good;
  tensors["quantize.embedding.weight"] = at::full({20, 6}, NAN);
  expect_contains(import_error(tensors), {"quantizer.codebook", "NaN"});
}

class Cosmos : public ImportWeights {
 protected:
  /// The files of encoder and decoder, with what TorchScript stores besides.
  void write_halves(const TensorMap& more_of_encoder = {}) {
    TensorMap encoder = {{"quantizer._levels", at::tensor({8, 8, 8, 5, 5, 5}, at::kInt)},
                         {"encoder.patcher.wavelets", at::full({2}, 0.70710678)}};
    TensorMap decoder = {{"inv_quant.quantizer._basis", at::zeros({6}, at::kInt)}};
    for (const auto& [name, tensor] : in_layout(model_)) {
      const bool first = name.starts_with("encoder.") || name.starts_with("quant_conv.");
      (first ? encoder : decoder)[name] = tensor.to(at::kBFloat16);
    }
    for (const auto& [name, tensor] : more_of_encoder) encoder[name] = tensor;
    write_tensors(folder_ / "cosmos/encoder.jit", encoder);
    write_tensors(folder_ / "cosmos/decoder.jit", decoder);
  }
  ImportedModel import_halves() {
    return import_model({encoder_, "", {}, false, folder_ / "cosmos/decoder.jit"});
  }

  ForeignModel model_ = foreign_models().back();
  std::filesystem::path encoder_ = folder_ / "cosmos/encoder.jit";
};

TEST_F(Cosmos, EncoderAndDecoderMakeOneModel) {
  write_halves();
  auto expected = random_tokenizer(model_.config);
  for (auto& [name, tensor] : named_tensors(*expected)) {
    torch::NoGradGuard no_grad;
    tensor.set_data(tensor.to(at::kBFloat16).to(at::kFloat));
  }
  for (const auto& made : {import_halves(), import_model({folder_ / "cosmos", "", {}, false})}) {
    EXPECT_EQ(to_yaml(made.config), to_yaml(model_.config));
    expect_equal(made.tokenizer, expected);
    expect_contains(joined_notes(made),
                    {encoder_.string() + " and ", "decoder.jit: Cosmos' tokenizer of images",
                     "1 tensor of encoder.patcher.*", "1 tensor of quantizer.*",
                     "fsq of 64000 codes of 6 channels", "images of 256x256 as 32x32 tokens"});
  }
}

TEST_F(Cosmos, LevelsAreThoseOfTheFile) {
  write_halves({{"quantizer._levels", at::tensor({4, 4, 4, 3, 3, 3}, at::kInt)}});
  EXPECT_EQ(import_halves().tokenizer->quantizer->codes(), 64 * 27);
  const auto error_of_levels = [&](const torch::Tensor& levels) {
    write_halves({{"quantizer._levels", levels}});
    return error_of([&] { import_halves(); });
  };
  expect_contains(error_of_levels(at::full({6}, NAN)), {"_levels is no list of levels"});
  expect_contains(error_of_levels(at::zeros({2, 3}, at::kInt)), {"_levels is no list of levels"});
  expect_contains(error_of_levels(at::tensor({8, 1}, at::kInt)), {"quantizer.fsq.levels"});
  expect_contains(error_of_levels(at::tensor({8, 8}, at::kInt)), {"quantizer.fsq.levels"});
}

TEST_F(Cosmos, WhatIsNotAsInNsvqIsRefused) {
  write_halves({{"encoder.patcher.wavelets", at::ones({2})}});
  expect_contains(error_of([&] { import_halves(); }), {"encoder.patcher.wavelets", "Haar"});
  write_halves();
  expect_contains(error_of([&] {
                    import_model({encoder_, "", {}, false});
                  }),
                  {"Cosmos' encoder is recognised", "nsvq import encoder.jit decoder.jit"});
  expect_contains(error_of([&] {
                    import_model({encoder_, "", {}, false, encoder_});
                  }),
                  {"encoder.conv_in.", "' is in both"});
  write_halves({{"quant_conv.weight", at::zeros({16, 10, 1, 1})}});
  expect_contains(error_of([&] { import_halves(); }), {"continuous", "no codes"});
}

TEST_F(ImportWeights, OfDiffusersAFolderWillDo) {
  const auto model = foreign_models().at(5);
  write_tensors(folder_ / "vqvae/diffusion_pytorch_model.safetensors", in_layout(model));
  const auto made = import_model({folder_ / "vqvae", "", {}, false});
  expect_equal(made.tokenizer, random_tokenizer(model.config));
  const auto error_by = [&](const std::string& json) {
    write_text(folder_ / "vqvae/config.json", json);
    return error_of([&] { import_model({folder_ / "vqvae", "", {}, false}); });
  };
  expect_contains(error_by(R"({"_class_name": "VQModel", "act_fn": "gelu"})"),
                  {"config.json", "act_fn", "gelu", "silu"});
  expect_contains(error_by(R"({"norm_num_groups": 16})"), {"norm_num_groups is 16"});
  expect_contains(error_by("{"), {"config.json"});
  write_text(folder_ / "vqvae/config.json", R"({"_class_name": "VQModel", "norm_num_groups": 32})");
  EXPECT_EQ(import_model({folder_ / "vqvae", "", {}, false}).config.model.width, 32);
  expect_contains(error_of([&] {
                    import_model({folder_ / "vqvae/..", "", {}, false});
                  }),
                  {"a folder without diffusion_pytorch_model.safetensors"});
}

}  // namespace
}  // namespace nsvq
