#pragma once

#include <gtest/gtest.h>
#include <torch/utils.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "nsvq/io/formats/safetensors.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/tokenizer/exchange/their_weights.h"
#include "nsvq/tokenizer/layouts/layout.h"
#include "nsvq/tokenizer/tokenizer.h"

namespace nsvq {

/// A small model in the layout of another program.
struct ForeignModel {
  std::string layout;
  TokenizerConfig config;
};

inline ForeignModel foreign_model(const std::string& layout, std::vector<std::string> settings,
                                  int64_t size = 256) {
  settings.push_back("data.size=" + std::to_string(size));
  return {layout, load_config("", settings)};
}

/// One of each layout that import takes, with every setting that shapes tell.
inline std::vector<ForeignModel> foreign_models() {
  const std::vector<std::string> taming = {
      "model.family=taming", "model.width=32",      "model.multipliers=[1, 2, 1]",
      "model.blocks=2",      "model.attention=[2]", "model.mid_attention=true"};
  const auto with = [](std::vector<std::string> settings, const std::vector<std::string>& more) {
    settings.insert(settings.end(), more.begin(), more.end());
    return settings;
  };
  const std::vector<std::string> narrow = {"model.latent_dim=6", "model.z_channels=10"};
  const std::vector<std::string> plain = {"quantizer.type=vq", "quantizer.codes=20"};
  const std::vector<std::string> down = {"model.rounding=down"};
  const std::vector<std::string> small = {"model.width=8", "model.multipliers=[1, 2, 2]",
                                          "model.latent_dim=6"};
  const std::vector<std::string> magvit2 = {"model.family=magvit2", "model.rounding=down",
                                            "model.blocks=4", "quantizer.type=lfq",
                                            "quantizer.lfq.bits=6"};
  const std::vector<std::string> maskgit = {"model.family=maskgit", "model.range=unit",
                                            "model.rounding=down", "model.blocks=3"};
  const std::vector<std::string> maskbit = {"model.family=maskbit", "model.range=unit",
                                            "model.rounding=down", "model.blocks=2"};
  return {
      foreign_model("taming-transformers' VQGAN", with(with(taming, narrow), with(plain, down))),
      foreign_model(
          "taming-transformers' VQGAN with Gumbel codes",
          with(taming, {"model.latent_dim=7", "model.rounding=down", "quantizer.type=gumbel",
                        "quantizer.codes=12", "model.latent_kernel=1"})),
      foreign_model("IBQ", {"model.family=taming", "model.rounding=down", "model.width=32",
                            "model.multipliers=[1, 1]", "model.blocks=4", "model.latent_dim=6",
                            "model.attention=[1]", "model.mid_attention=true", "quantizer.type=ibq",
                            "quantizer.codes=20"}),
      foreign_model("Chameleon's VQGAN",
                    {"model.family=taming", "model.rounding=down", "model.width=8",
                     "model.multipliers=[1, 1, 1, 1, 2]", "model.blocks=1", "model.latent_dim=256",
                     "model.z_channels=4", "model.mid_attention=true", "quantizer.type=vq",
                     "quantizer.codes=8192"},
                    512),
      foreign_model("LlamaGen's VQ",
                    with(with(taming, narrow), with(plain, {"quantizer.normalise=true"}))),
      foreign_model("diffusers' VQModel",
                    {"model.family=taming", "model.width=32", "model.multipliers=[1, 2, 3]",
                     "model.blocks=1", "model.latent_dim=6", "model.attention=[1, 2]",
                     "quantizer.type=vq", "quantizer.codes=20"}),
      foreign_model("MaskGIT's VQGAN", with(with(small, maskgit), plain)),
      foreign_model("MaskGIT's VQGAN in MaskBit's names", with(with(small, maskgit), plain)),
      foreign_model("Open-MAGVIT2",
                    with(magvit2, {"model.width=8", "model.multipliers=[1, 1, 2, 2, 4]",
                                   "model.latent_dim=6"})),
      foreign_model("Open-MAGVIT2 for images of 128x128", with(small, magvit2), 128),
      foreign_model("SimVQ",
                    with(with(small, down), {"quantizer.type=simvq", "quantizer.codes=20"}), 128),
      foreign_model("SimVQ's network with a plain codebook", with(with(small, down), plain), 128),
      foreign_model("VAR's VQVAE",
                    {"model.family=taming", "model.rounding=down", "model.width=32",
                     "model.multipliers=[1, 1, 1, 1, 1]", "model.blocks=1", "model.latent_dim=6",
                     "model.latent_kernel=3", "model.attention=[4]", "model.mid_attention=true",
                     "quantizer.type=var", "quantizer.codes=20"}),
      foreign_model("VQGAN+", with(with(small, maskbit), plain)),
      foreign_model("VQGAN+ with its older decoder", with(with(small, maskbit), plain)),
      foreign_model("MaskBit's tokenizer",
                    with(with(small, maskbit), {"quantizer.type=lfq", "quantizer.lfq.bits=6"})),
      foreign_model("Janus' VQ as transformers has it",
                    with(with(taming, narrow), with(plain, {"quantizer.normalise=true"})), 384),
      foreign_model("Cosmos' tokenizer of images",
                    {"model.family=taming", "model.width=8", "model.multipliers=[1, 2, 2]",
                     "model.blocks=2", "model.latent_dim=6", "model.z_channels=10",
                     "model.mid_attention=true", "model.halvings=1", "model.haar=2",
                     "quantizer.type=fsq", "quantizer.fsq.levels=[8, 8, 8, 5, 5, 5]"}),
  };
}

/// A tokenizer with the same weights at each call.
inline Tokenizer random_tokenizer(const TokenizerConfig& config) {
  torch::manual_seed(7);
  Tokenizer tokenizer(config);
  tokenizer->eval();
  return tokenizer;
}

/// Its tensors by the names of the layout, behind `prefix`.
inline TensorMap in_layout(const ForeignModel& model, const std::string& prefix = "") {
  auto ours = named_tensors(*random_tokenizer(model.config));
  const auto& layout = find_layout(model.layout);
  for (const auto& made : layout.made) ours.erase(made);
  const Renaming to_theirs(layout.rules, Side::ours, names_in(shapes_of(ours)));
  TensorMap theirs;
  for (const auto& [name, tensor] : ours) {
    const auto there = to_theirs(name);
    EXPECT_TRUE(there.has_value()) << model.layout << " has no name for " << name;
    if (!there) continue;
    const auto sizes = sizes_on(Side::theirs, there->form, tensor.sizes().vec());
    theirs[prefix + there->name] = tensor.detach().reshape(sizes);
  }
  EXPECT_EQ(theirs.size(), ours.size()) << model.layout;
  for (const auto& mark : layout.has) {  // some are recognised by a tensor that is dropped
    const auto& dropped = layout.dropped;
    if (std::ranges::find(dropped, mark.begins) == dropped.end()) continue;
    theirs[prefix + mark.begins] = at::zeros({1});
  }
  return theirs;
}

inline std::filesystem::path write_tensors(const std::filesystem::path& file,
                                           const TensorMap& tensors) {
  write_safetensors(file, {tensors, {}});
  return file;
}

}  // namespace nsvq
