#include "nsvq/cli/image_batches.h"

namespace nsvq {

void ImageBatches::add(ImagePair pair) {
  const Image& image = pair.reference ? *pair.reference : *pair.other;
  const Shape shape = {pair.reference.has_value(), pair.other.has_value(), image.width,
                       image.height};
  constexpr int64_t most_pixels = 1 << 20, most_images = 32;
  const int64_t room = most_pixels / (int64_t{image.width} * image.height);
  if (shape != shape_ || std::ssize(pairs_) >= std::clamp<int64_t>(room, 1, most_images)) flush();
  shape_ = shape;
  pairs_.push_back(std::move(pair));
}

void ImageBatches::flush() {
  if (!pairs_.empty()) use_(to_batch(pairs_));
  pairs_.clear();
}

}  // namespace nsvq
