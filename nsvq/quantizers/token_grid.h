#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nsvq {

/// A grid of indices: a latent each or, of a quantizer with several scales, a part of the image.
struct TokenGrid {
  int64_t height = 0, width = 0;

  bool operator==(const TokenGrid&) const = default;
};

inline int64_t tokens_in(const std::vector<TokenGrid>& grids) {
  int64_t tokens = 0;
  for (const auto& grid : grids) tokens += grid.height * grid.width;
  return tokens;
}

/// "16x16 tokens", or "680 tokens at 10 scales".
std::string shown_grids(const std::vector<TokenGrid>& grids);

}  // namespace nsvq
