#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "nsvq/generation/generator.h"

namespace nsvq {

/// Which images to sample. Image i of a seed is the same in every request.
struct GenerationRequest {
  int64_t seed = 0;
  std::vector<int64_t> indices;  ///< numbers of the images
  std::vector<int64_t> labels;   ///< a class each; empty: none are told
  torch::Tensor given;           ///< [positions] int64 of every image, -1 where one is to be found
  std::function<void()> before_step = [] {};
};

/// Samples tokens in batches of one size, which are filled up, so that an image's numbers do not
/// depend on how many are asked for together.
class TokenSampler {
 public:
  /// `generator` is on `device`.
  TokenSampler(std::shared_ptr<Generator> generator, const GridShape& grid,
               const SamplingConfig& sampling, c10::Device device, int64_t batch_size,
               bool graphs = false);

  /// [images, h, w] int64 on the device.
  torch::Tensor sample(const GenerationRequest& request);

  /// Images that are sampled together: on a CPU always the same number, whatever was asked for.
  int64_t batch_size() const { return batch_size_; }

 private:
  torch::Tensor sample_batch(const GenerationRequest& request, size_t first, size_t end);

  std::shared_ptr<Generator> generator_;
  GridShape grid_;
  SamplingConfig sampling_;
  c10::Device device_;
  int64_t batch_size_;
  bool graphs_;
};

}  // namespace nsvq
