// SimVQ and DimVQ, whose networks are nsvq's (improved_model.py of the first Open-MAGVIT2).
#include "nsvq/tokenizer/layouts/layout.h"

namespace nsvq {

namespace {

std::vector<NameRule> rules_of_simvq() {
  return {
      {"encoder.conv_in.*", "encoder.conv_in.*"},
      {"encoder.down.#.block.#.*", "encoder.down.#.block.#.*"},
      {"encoder.down.#.downsample.*", "encoder.down.#.downsample.*"},
      {"encoder.mid_block.+.*", "encoder.mid.block_+.*"},
      {"encoder.norm_out.*", "encoder.norm_out.*"},
      {"encoder.conv_out.*", "encoder.conv_out.*"},
      {"decoder.conv_in.*", "decoder.conv_in.*"},
      {"decoder.mid_block.+.*", "decoder.mid.block_+.*"},
      {"decoder.up.#.block.#.*", "decoder.up.#.block.#.*"},
      {"decoder.up.#.upsample.conv1.*", "decoder.up.#.upsample.*"},
      {"decoder.norm_out.*", "decoder.norm_out.*"},
      {"decoder.conv_out.*", "decoder.conv_out.*"},
      {"quantize.embedding.weight", "quantizer.codebook"},
      {"quantize.embedding_proj.*", "quantizer.projection.*"},
  };
}

}  // namespace

std::vector<Layout> simvq_layouts() {
  const Layout::Mark encoder{"encoder.mid_block."}, decoder{"decoder.mid_block."},
      table{"quantize.embedding.weight"};
  return {
      {.name = "SimVQ",
       .has = {encoder, decoder, table, {"quantize.embedding_proj.weight"}},
       .lacks = {"decoder.adaptive.", "encoder.down_blocks."},
       .rules = rules_of_simvq(),
       .settings = {"model.rounding: down", "quantizer.type: simvq"},
       .image_size = 128},
      {.name = "SimVQ's network with a plain codebook",
       .has = {encoder, decoder, table},
       .lacks = {"decoder.adaptive.", "encoder.down_blocks."},
       .rules = rules_of_simvq(),
       .settings = {"model.rounding: down", "quantizer.type: vq"},
       .image_size = 128},
  };
}

}  // namespace nsvq
