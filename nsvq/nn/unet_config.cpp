#include "nsvq/nn/unet_config.h"

#include <iterator>

#include "nsvq/core/error.h"

namespace nsvq {

std::vector<Option> unet_options(UnetConfig& unet) {
  return {
      {"unet.width", &unet.width, "channels of the first level", Range::between(2, 4096)},
      {"unet.multipliers", &unet.multipliers,
       "channels of each level as multiples of the width; each level after the first halves the "
       "resolution",
       Range::list(1, 8, Range::between(1, 64))},
      {"unet.blocks", &unet.blocks,
       "residual blocks per level on the way down, one more on the "
       "way up",
       Range::between(1, 16)},
      {"unet.attention", &unet.attention,
       "levels with attention, counted from 0; the middle always has it",
       Range::list(0, 8, Range::between(0, 7))},
      {"unet.heads", &unet.heads, "heads of the attention", Range::between(1, 64)},
  };
}

void check_unet(UnetConfig unet) {
  require_in_range(unet_options(unet));
  const auto levels = std::ssize(unet.multipliers);
  if (unet.width % 2 != 0) {
    throw UserError("unet.width must be even, for sines and cosines of the time, but is {}",
                    unet.width);
  }
  auto attended = unet.attention;
  attended.push_back(levels - 1);  // the middle
  for (const int64_t level : attended) {
    if (level >= levels) {
      throw UserError("unet.attention names level {}, but unet.multipliers has levels 0..{}", level,
                      levels - 1);
    }
    const int64_t channels = unet.width * unet.multipliers[level];
    if (channels % unet.heads == 0) continue;
    throw UserError("unet.heads {} does not divide the {} channels of level {}", unet.heads,
                    channels, level);
  }
}

}  // namespace nsvq
