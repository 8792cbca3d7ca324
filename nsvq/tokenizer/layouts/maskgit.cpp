// MaskGIT's VQGAN in PyTorch, as open-muse, TiTok and MaskBit name it. Pixels are in [0, 1].
#include "nsvq/tokenizer/layouts/layout.h"

namespace nsvq {

namespace {

std::vector<NameRule> rules_of_maskgit() {
  return {
      {"encoder.conv_in.*", "encoder.conv_in.*"},
      {"encoder.down.#.block.#.*", "encoder.down.#.block.#.*"},
      {"encoder.norm_out.*", "encoder.norm_out.*"},
      {"encoder.conv_out.*", "encoder.conv_out.*"},
      {"decoder.conv_in.*", "decoder.conv_in.*"},
      {"decoder.up.#.block.#.*", "decoder.up.#.block.#.*"},
      {"decoder.up.#.upsample_conv.*", "decoder.up.#.upsample.*"},
      {"decoder.norm_out.*", "decoder.norm_out.*"},
      {"decoder.conv_out.*", "decoder.conv_out.*"},
      {"quantize.embedding.weight", "quantizer.codebook"},
  };
}

}  // namespace

std::vector<Layout> maskgit_layouts() {
  const std::vector<std::string> settings = {"model.family: maskgit", "model.range: unit",
                                             "quantizer.type: vq"};
  auto muse = rules_of_maskgit(), maskbit = muse;
  for (const std::string network : {"encoder.", "decoder."}) {
    muse.push_back({network + "mid.+.*", network + "mid.block_+.*"});
    maskbit.push_back({network + "mid.res_blocks.+.*", network + "mid.block_+.*"});
  }
  maskbit.push_back({"encoder.down.#.res_blocks.#.*", "encoder.down.#.block.#.*"});
  maskbit.push_back({"decoder.up.#.res_blocks.#.*", "decoder.up.#.block.#.*"});
  const Layout::Mark table{"quantize.embedding.weight"};
  return {
      {.name = "MaskGIT's VQGAN",
       .has = {{"encoder.mid.0."}, {"decoder.up.1.upsample_conv."}, table},
       .rules = muse,
       .settings = settings},
      {.name = "MaskGIT's VQGAN in MaskBit's names",
       .has = {{"encoder.mid.res_blocks.0."}, {"decoder.up.1.upsample_conv."}, table},
       .lacks = {"decoder.up.0.upsample_conv."},
       .rules = maskbit,
       .settings = settings},
  };
}

}  // namespace nsvq
