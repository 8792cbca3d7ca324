#pragma once

namespace nsvq {

// More than anyone trains, and little enough for sums and products of them in 64 bits.
inline constexpr double kMostEpochs = 1e9, kMostSteps = 1e12, kMostAtOnce = 1e6;

}  // namespace nsvq
