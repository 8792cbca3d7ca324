// Open-MAGVIT2 (improved_model.py with adaptive norms); a token is the signs of a latent.
#include "nsvq/tokenizer/layouts/layout.h"

namespace nsvq {

std::vector<Layout> magvit2_layouts() {
  const std::vector<NameRule> rules = {
      {"encoder.conv_in.*", "encoder.conv_in.*"},
      {"encoder.down.#.block.#.*", "encoder.down.#.block.#.*"},
      {"encoder.down.#.downsample.*", "encoder.down.#.downsample.*"},
      {"encoder.mid_block.+.*", "encoder.mid.block_+.*"},
      {"encoder.norm_out.*", "encoder.norm_out.*"},
      {"encoder.conv_out.*", "encoder.conv_out.*"},
      {"decoder.conv_in.*", "decoder.conv_in.*"},
      {"decoder.mid_block.+.*", "decoder.mid.block_+.*"},
      {"decoder.adaptive.#.gamma.*", "decoder.adaptive.#.gamma.*"},
      {"decoder.adaptive.#.beta.*", "decoder.adaptive.#.beta.*"},
      {"decoder.up.#.block.#.*", "decoder.up.#.block.#.*"},
      {"decoder.up.#.upsample.conv1.*", "decoder.up.#.upsample.*"},
      {"decoder.norm_out.*", "decoder.norm_out.*"},
      {"decoder.conv_out.*", "decoder.conv_out.*"},
  };
  const Layout of_256{
      .name = "Open-MAGVIT2",
      .has = {{"encoder.mid_block."}, {"decoder.adaptive."}},
      .rules = rules,
      .settings = {"model.family: magvit2", "model.rounding: down", "quantizer.type: lfq"}};
  // The model of 128x128 pixels has a level less.
  auto of_128 = of_256;
  of_128.name = "Open-MAGVIT2 for images of 128x128";
  of_128.lacks = {"encoder.down.4."};
  of_128.image_size = 128;
  return {of_128, of_256};
}

}  // namespace nsvq
