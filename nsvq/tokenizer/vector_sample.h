#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>
#include <string>

#include "nsvq/data/loader/loader.h"

namespace nsvq {

/// Feature vectors [n, d] of a source's images: `vectors_of` makes equally many of each image of a
/// batch [B, 3, H, W]. If there are more than `most`, so many are drawn by the seed, spread evenly
/// over the source. Throws UserError where no image is usable or a vector is not finite.
struct VectorSample {
  std::string title;  ///< of the progress bar
  std::function<torch::Tensor(const torch::Tensor& images)> vectors_of;
  int64_t most = 0;
  uint64_t seed = 0;

  torch::Tensor draw(const std::shared_ptr<const Source>& source, const LoaderOptions& options,
                     c10::Device device) const;
};

}  // namespace nsvq
