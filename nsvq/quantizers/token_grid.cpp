#include "nsvq/quantizers/token_grid.h"

#include <fmt/format.h>

namespace nsvq {

std::string shown_grids(const std::vector<TokenGrid>& grids) {
  if (grids.size() == 1) return fmt::format("{}x{} tokens", grids[0].height, grids[0].width);
  return fmt::format("{} tokens at {} scales", tokens_in(grids), grids.size());
}

}  // namespace nsvq
