// Tokenizers that are recognised and of which no model is made.
#include <utility>

#include "nsvq/tokenizer/layouts/layout.h"

namespace nsvq {

namespace {

Layout refused(std::string name, std::vector<Layout::Mark> has, std::string why,
               std::vector<std::string> lacks = {}) {
  return {.name = std::move(name),
          .has = std::move(has),
          .lacks = std::move(lacks),
          .refused = std::move(why)};
}

}  // namespace

std::vector<Layout> refused_layouts() {
  const std::string transformer = "its networks are transformers, which nsvq has not";
  const std::string video = "it is made of 3-D convolutions for videos, which nsvq has not";
  const std::string spatial = "its decoder is normalised by the codes, which nsvq has not";
  const std::string without_codes = "it has no codes, so it makes no tokens";
  const Layout::Mark bias{"encoder.down.0.block.0.conv1.bias"}, quantizer{"quantize."};
  return {
      refused("TiTok", {{"latent_tokens"}, {"encoder.latent_token_positional_embedding"}},
              transformer),
      refused("GigaTok", {{"s2to1encoder."}}, transformer),
      refused("GigaTok with a grid of tokens", {{"s2dencoder."}}, transformer),
      refused("a VQVAE of several scales", {{"quantize.quant_resi."}, {"encoder.down."}},
              "its scales do not share four convolutions, as those of VAR do",
              {"quantize.quant_resi.qresi_ls.3."}),
      refused("Emu3's vision tokenizer", {{"encoder.time_conv."}, quantizer}, video),
      refused("a tokenizer of videos", {{"encoder.conv_in.weight", {0, 0, 0, 0, 0}}}, video),
      refused("a tokenizer of videos", {{"encoder.conv_in.conv.weight", {0, 0, 0, 0, 0}}}, video),
      refused("Cosmos' tokenizer of videos", {{"encoder.patcher3d."}}, video),
      refused("Cosmos' tokenizer of videos", {{"decoder.unpatcher3d."}}, video),
      refused("MGVQ", {{"encoder.stages."}, {"quant_conv."}, quantizer},
              "its networks are EfficientViT's, and its tokens of several groups, which nsvq has "
              "not"),
      refused("MoVQ", {{"decoder.norm_out.conv_y."}, quantizer}, spatial),
      refused("MoVQ (diffusers' VQModel)", {{"decoder.conv_norm_out.conv_y."}, quantizer}, spatial),
      refused("diffusers' AutoencoderKL", {{"encoder.down_blocks."}, {"decoder.up_blocks."}},
              without_codes, {"quantize."}),
      refused("Stable Diffusion's AutoencoderKL", {bias, {"quant_conv."}}, without_codes,
              {"quantize."}),
      refused("a tokenizer of transformer blocks, such as BAR's", {{"encoder.transformer."}},
              transformer, {"encoder.conv_in."}),
      refused("a tokenizer of transformer blocks, such as BAR's", {{"encoder.blocks."}},
              transformer, {"encoder.conv_in."}),
  };
}

}  // namespace nsvq
