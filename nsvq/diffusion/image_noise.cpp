#include "nsvq/diffusion/image_noise.h"

#include <utility>

#include "nsvq/core/random.h"
#include "nsvq/ops/random/seeded_random.h"

namespace nsvq {

ImageNoise::ImageNoise(int64_t seed, const std::vector<int64_t>& indices,
                       std::vector<int64_t> shape, c10::Device device)
    : shape_(std::move(shape)) {
  std::vector<int64_t> seeds;
  for (const int64_t index : indices) {
    constexpr uint64_t purpose = 0x6e6f697365;  // apart from the draws of training
    seeds.push_back(static_cast<int64_t>(
        combine_seeds({static_cast<uint64_t>(seed), purpose, static_cast<uint64_t>(index)})));
  }
  seeds_ = at::tensor(seeds, at::kLong).to(device);
}

torch::Tensor ImageNoise::draw(int64_t draw) const {
  int64_t count = 1;
  for (const int64_t size : shape_) count *= size;
  std::vector<int64_t> sizes = {seeds_.size(0)};
  sizes.insert(sizes.end(), shape_.begin(), shape_.end());
  return normal_rows(seeds_, draw, count).view(sizes);
}

}  // namespace nsvq
