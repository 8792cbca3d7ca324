// MaskGIT's VQGAN in PyTorch, as open-muse, TiTok and MaskBit name it, and MaskBit's own
// tokenizers. Pixels are in [0, 1].
#include <string>

#include "nsvq/tokenizer/layouts/layout.h"

namespace nsvq {

namespace {

/// Without those of residual blocks.
std::vector<NameRule> common_rules() {
  return {
      {"encoder.conv_in.*", "encoder.conv_in.*"},
      {"encoder.norm_out.*", "encoder.norm_out.*"},
      {"encoder.conv_out.*", "encoder.conv_out.*"},
      {"decoder.conv_in.*", "decoder.conv_in.*"},
      {"decoder.norm_out.*", "decoder.norm_out.*"},
      {"decoder.conv_out.*", "decoder.conv_out.*"},
      {"quantize.embedding.weight", "quantizer.codebook"},
  };
}

std::vector<NameRule> rules_of_muse() {
  auto rules = common_rules();
  for (const std::string network : {"encoder.", "decoder."}) {
    rules.push_back({network + "mid.+.*", network + "mid.block_+.*"});
  }
  rules.push_back({"encoder.down.#.block.#.*", "encoder.down.#.block.#.*"});
  rules.push_back({"decoder.up.#.block.#.*", "decoder.up.#.block.#.*"});
  rules.push_back({"decoder.up.#.upsample_conv.*", "decoder.up.#.upsample.*"});
  return rules;
}

/// `level`: the wildcard of a level of the decoder, which older files count from the last.
std::vector<NameRule> rules_of_maskbit(const std::string& level) {
  auto rules = common_rules();
  for (const std::string network : {"encoder.", "decoder."}) {
    rules.push_back({network + "mid.res_blocks.+.*", network + "mid.block_+.*"});
  }
  const auto up = "decoder.up." + level;
  rules.push_back({"encoder.down.#.res_blocks.#.*", "encoder.down.#.block.#.*"});
  rules.push_back({"encoder.down.#.down_conv.*", "encoder.down.#.downsample.*"});
  rules.push_back({up + ".res_blocks.#.*", up + ".block.#.*"});
  rules.push_back({up + ".upsample_conv.*", up + ".upsample.*"});
  return rules;
}

std::vector<std::string> settings_of(const std::string& family, const std::string& quantizer) {
  return {"model.family: " + family, "model.range: unit", "model.rounding: down",
          "quantizer.type: " + quantizer};
}

}  // namespace

std::vector<Layout> maskgit_layouts() {
  const Layout::Mark table{"quantize.embedding.weight"}, bits{"quantize.bits_to_indices"};
  const Layout::Mark halving{"encoder.down.0.down_conv."};
  const Layout::Mark lowest_first{"decoder.up.0.upsample_conv."};
  const Layout::Mark highest_first{"decoder.up.1.upsample_conv."};
  return {
      {.name = "VQGAN+",
       .has = {halving, lowest_first, table},
       .rules = rules_of_maskbit("~"),
       .settings = settings_of("maskbit", "vq")},
      {.name = "VQGAN+ with its older decoder",
       .has = {halving, highest_first, table},
       .rules = rules_of_maskbit("#"),
       .settings = settings_of("maskbit", "vq")},
      {.name = "MaskBit's tokenizer",
       .has = {halving, lowest_first, bits},
       .rules = rules_of_maskbit("~"),
       .dropped = {"quantize.bits_to_indices", "quantize.codebook"},  // they follow from the bits
       .settings = settings_of("maskbit", "lfq")},
      {.name = "MaskGIT's VQGAN",
       .has = {{"encoder.mid.0."}, highest_first, table},
       .rules = rules_of_muse(),
       .settings = settings_of("maskgit", "vq")},
      {.name = "MaskGIT's VQGAN in MaskBit's names",
       .has = {{"encoder.mid.res_blocks.0."}, highest_first, table},
       .lacks = {lowest_first.begins},
       .rules = rules_of_maskbit("#"),
       .settings = settings_of("maskgit", "vq")},
  };
}

}  // namespace nsvq
