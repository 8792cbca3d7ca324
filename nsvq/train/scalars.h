#pragma once

#include <torch/types.h>

#include <map>
#include <string>
#include <vector>

namespace nsvq {

/// What a step computes for people, by name: losses, norms.
using Scalars = std::map<std::string, torch::Tensor>;

/// The same as one tensor, so that what is done with them is done at once.
struct GatheredScalars {
  std::vector<std::string> names;
  torch::Tensor values;  ///< [names] fp64, on the device of the scalars
};

GatheredScalars gather(const Scalars& scalars);

}  // namespace nsvq
