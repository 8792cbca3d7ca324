// Sizes of the tiles of tile_layout.h, for kernels, their launches and tests that need no GPU.
#pragma once

#include <c10/macros/Macros.h>

#include <cstdint>

namespace nsvq {

constexpr int kPanelColumns = 64;
constexpr int kExtraBytes = 1024;

C10_HOST_DEVICE constexpr int panels_for(int64_t dimension) {
  return dimension <= 64 ? 1 : dimension <= 128 ? 2 : 4;
}
C10_HOST_DEVICE constexpr int tile_rows(int panels) { return panels <= 2 ? 128 : 64; }
C10_HOST_DEVICE constexpr int body_bytes(int panels) { return panels * tile_rows(panels) * 128; }
C10_HOST_DEVICE constexpr int tile_bytes(int panels) { return body_bytes(panels) + kExtraBytes; }

}  // namespace nsvq
