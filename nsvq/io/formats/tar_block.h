#pragma once

#include <array>
#include <cstddef>

namespace nsvq {

/// Everything in a tar is a sequence of such blocks.
inline constexpr size_t kTarBlock = 512;
using TarBlock = std::array<char, kTarBlock>;

}  // namespace nsvq
