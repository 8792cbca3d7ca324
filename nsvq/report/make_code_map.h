#pragma once

#include <torch/types.h>

#include <filesystem>

#include "nsvq/report/code_map.h"

namespace nsvq {

/// The codebook of a run's newest model and the tokens of the images in its newest sample picture,
/// both computed on the CPU. What cannot be had is said in the map. Throws UserError if there is no
/// model that can be opened, or none with tokens.
CodeMap map_codes(const std::filesystem::path& run);

/// Places of `vectors` [K, d] by the two directions of largest variance, [K, 2], and the shares of
/// the variance in them, [2]. A direction points to where its largest component is positive.
struct MainDirections {
  torch::Tensor places, shares;
};
MainDirections main_directions(const torch::Tensor& vectors);

}  // namespace nsvq
