#pragma once

#include <cstdint>
#include <vector>

#include "nsvq/settings/option.h"

namespace nsvq {

/// Settings unet.*: the network of latent diffusion. The defaults are the paper's.
struct UnetConfig {
  int64_t width = 256;
  std::vector<int64_t> multipliers = {1, 2, 4};
  int64_t blocks = 2;
  std::vector<int64_t> attention = {0, 1, 2};
  int64_t heads = 4;

  /// Latents per side that become one at the lowest resolution.
  int64_t stride() const { return int64_t{1} << (multipliers.size() - 1); }
};

std::vector<Option> unet_options(UnetConfig& unet);
/// Throws UserError, naming the key, for what no network can be made of.
void check_unet(UnetConfig unet);

}  // namespace nsvq
