#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>
#include <string>

#include "nsvq/data/loader/loader.h"

namespace nsvq {

/// Vectors [n, d] of what `vectors_of` makes of images [B, 3, H, W], as many of each: all, or
/// `most` of them, drawn from the whole source by the seed. Throws UserError where no image is
/// usable or a vector is not finite.
struct VectorSample {
  std::string title;  ///< of the progress bar
  std::function<torch::Tensor(const torch::Tensor& images)> vectors_of;
  int64_t most = 0;
  uint64_t seed = 0;

  torch::Tensor draw(const std::shared_ptr<const Source>& source, const LoaderOptions& options,
                     c10::Device device) const;
};

}  // namespace nsvq
