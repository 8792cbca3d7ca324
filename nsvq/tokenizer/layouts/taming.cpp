// taming-transformers' VQGAN and those that kept its names: IBQ, VAR, latent diffusion, Chameleon.
#include "nsvq/tokenizer/layouts/layout.h"

namespace nsvq {

std::vector<NameRule> taming_networks() {
  return {
      {"encoder.conv_in.*", "encoder.conv_in.*"},
      {"encoder.down.#.block.#.*", "encoder.down.#.block.#.*"},
      {"encoder.down.#.attn.#.*", "encoder.down.#.attn.#.*"},
      {"encoder.down.#.downsample.conv.*", "encoder.down.#.downsample.*"},
      {"encoder.mid.block_#.*", "encoder.mid.block_#.*"},
      {"encoder.mid.attn_1.*", "encoder.mid.attn_1.*"},
      {"encoder.norm_out.*", "encoder.norm_out.*"},
      {"encoder.conv_out.*", "encoder.conv_out.*"},
      {"quant_conv.*", "encoder.quant_conv.*"},
      {"post_quant_conv.*", "decoder.post_quant_conv.*"},
      {"decoder.conv_in.*", "decoder.conv_in.*"},
      {"decoder.mid.block_#.*", "decoder.mid.block_#.*"},
      {"decoder.mid.attn_1.*", "decoder.mid.attn_1.*"},
      {"decoder.up.#.block.#.*", "decoder.up.#.block.#.*"},
      {"decoder.up.#.attn.#.*", "decoder.up.#.attn.#.*"},
      {"decoder.up.#.upsample.conv.*", "decoder.up.#.upsample.*"},
      {"decoder.norm_out.*", "decoder.norm_out.*"},
      {"decoder.conv_out.*", "decoder.conv_out.*"},
  };
}

namespace {

std::vector<NameRule> with_codes(const std::vector<NameRule>& codes) {
  auto rules = taming_networks();
  rules.insert(rules.end(), codes.begin(), codes.end());
  return rules;
}

}  // namespace

std::vector<Layout> taming_layouts() {
  const auto searched = with_codes({{"quantize.embedding.weight", "quantizer.codebook"}});
  const auto drawn = with_codes({{"quantize.embed.weight", "quantizer.codebook"},
                                 {"quantize.proj.*", "quantizer.projection.*", Form::linear_here}});
  // VAR's attention has one convolution for q, k and v.
  std::vector<NameRule> scaled = {
      {"encoder.down.#.attn.#.qkv.*", "encoder.down.#.attn.#.qkv.*", Form::fused_there},
      {"encoder.mid.attn_1.qkv.*", "encoder.mid.attn_1.qkv.*", Form::fused_there},
      {"decoder.mid.attn_1.qkv.*", "decoder.mid.attn_1.qkv.*", Form::fused_there},
      {"decoder.up.#.attn.#.qkv.*", "decoder.up.#.attn.#.qkv.*", Form::fused_there},
      {"quantize.quant_resi.qresi_ls.#.*", "quantizer.phi.#.*"}};
  scaled.insert(scaled.end(), searched.begin(), searched.end());
  // nsvq's own blocks have these names too, but no biases.
  const Layout::Mark bias{"encoder.down.0.block.0.conv1.bias"};
  const Layout::Mark table{"quantize.embedding.weight"};
  const std::string scales = "quantize.quant_resi.";
  // Logits are dot products with the codes; the other models with these names have fewer blocks.
  const Layout::Mark fourth{"encoder.down.0.block.3.conv1.bias"};
  return {
      {.name = "IBQ",
       .has = {fourth, table},
       .lacks = {scales},
       .rules = searched,
       .settings = {"model.family: taming", "model.rounding: down", "quantizer.type: ibq"}},
      {.name = "taming-transformers' VQGAN with Gumbel codes",
       .has = {bias, {"quantize.embed.weight"}},
       .rules = drawn,
       .settings = {"model.family: taming", "model.rounding: down", "quantizer.type: gumbel"}},
      {.name = "Chameleon's VQGAN",
       .has = {bias, {"quantize.embedding.weight", {8192, 256}}, {"encoder.down.4."}},
       .lacks = {"encoder.down.4.attn.", scales},
       .rules = searched,
       .settings = {"model.family: taming", "model.rounding: down", "quantizer.type: vq"},
       .image_size = 512},
      {.name = "taming-transformers' VQGAN",
       .has = {bias, table},
       .lacks = {scales},
       .rules = searched,
       .settings = {"model.family: taming", "model.rounding: down", "quantizer.type: vq"}},
      {.name = "VAR's VQVAE",
       .has = {bias, table, {"quantize.quant_resi.qresi_ls.3."}},
       .rules = scaled,
       .dropped = {"quantize.ema_vocab_hit_SV"},  // how often each scale chose each code
       .settings = {"model.family: taming", "model.rounding: down", "quantizer.type: var"}},
  };
}

}  // namespace nsvq
