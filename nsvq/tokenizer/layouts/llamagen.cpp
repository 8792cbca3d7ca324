// LlamaGen's VQ-16 and VQ-8, which Janus has too: taming's networks under other names.
#include <string>

#include "nsvq/tokenizer/layouts/layout.h"

namespace nsvq {

namespace {

/// taming's names, but for levels of the decoder: transformers counts from the lowest resolution.
std::vector<NameRule> rules_of_transformers() {
  const std::string up = "decoder.up.";
  auto rules = taming_networks();
  for (auto& rule : rules) {
    if (!rule.theirs.starts_with(up)) continue;
    rule.theirs[up.size()] = rule.ours[up.size()] = '~';
  }
  rules.push_back({"quantize.embedding.weight", "quantizer.codebook"});
  return rules;
}

}  // namespace

std::vector<Layout> llamagen_layouts() {
  const std::vector<NameRule> rules = {
      {"encoder.conv_in.*", "encoder.conv_in.*"},
      {"encoder.conv_blocks.#.res.#.*", "encoder.down.#.block.#.*"},
      {"encoder.conv_blocks.#.attn.#.*", "encoder.down.#.attn.#.*"},
      {"encoder.conv_blocks.#.downsample.conv.*", "encoder.down.#.downsample.*"},
      {"encoder.mid.0.*", "encoder.mid.block_1.*"},
      {"encoder.mid.1.*", "encoder.mid.attn_1.*"},
      {"encoder.mid.2.*", "encoder.mid.block_2.*"},
      {"encoder.norm_out.*", "encoder.norm_out.*"},
      {"encoder.conv_out.*", "encoder.conv_out.*"},
      {"quant_conv.*", "encoder.quant_conv.*"},
      {"post_quant_conv.*", "decoder.post_quant_conv.*"},
      {"decoder.conv_in.*", "decoder.conv_in.*"},
      {"decoder.mid.0.*", "decoder.mid.block_1.*"},
      {"decoder.mid.1.*", "decoder.mid.attn_1.*"},
      {"decoder.mid.2.*", "decoder.mid.block_2.*"},
      // Block 0 has the lowest resolution.
      {"decoder.conv_blocks.~.res.#.*", "decoder.up.~.block.#.*"},
      {"decoder.conv_blocks.~.attn.#.*", "decoder.up.~.attn.#.*"},
      {"decoder.conv_blocks.~.upsample.conv.*", "decoder.up.~.upsample.*"},
      {"decoder.norm_out.*", "decoder.norm_out.*"},
      {"decoder.conv_out.*", "decoder.conv_out.*"},
      {"quantize.embedding.weight", "quantizer.codebook"},
  };
  return {{.name = "LlamaGen's VQ",
           .has = {{"encoder.conv_blocks."}, {"quantize.embedding.weight"}},
           .rules = rules,
           .dropped = {"quantize.codebook_used"},  // indices of the last batches
           .settings = {"model.family: taming", "quantizer.type: vq", "quantizer.normalise: true"}},
          // Its own code takes the tokens of latents and codes that are not divided by their norms,
          // unlike Janus', and decodes codes that are.
          {.name = "Janus' VQ as transformers has it",
           .has = {{"encoder.down.0.block.0.conv1.bias"},
                   {"decoder.up.0.upsample.conv."},
                   {"quantize.embedding.weight"}},
           .rules = rules_of_transformers(),
           .settings = {"model.family: taming", "quantizer.type: vq", "quantizer.normalise: true"},
           .image_size = 384}};
}

}  // namespace nsvq
