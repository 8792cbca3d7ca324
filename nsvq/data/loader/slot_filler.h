#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/data/loader/loader.h"
#include "nsvq/data/loader/sampler.h"
#include "nsvq/data/streams/read_ahead.h"

namespace nsvq {

/// An epoch's number, its images in the order of use, and their assignment to ranks and batches.
struct Epoch {
  int64_t number = 0;
  std::vector<int64_t> order;  ///< by position; only this rank's if the source is read in order
  Sampler sampler;
  std::shared_ptr<ReadAhead> ahead;  ///< set if the source is read in order
};

/// Puts images into the slots of batches and remembers which ones are broken. Called from any
/// thread.
class SlotFiller {
 public:
  /// Instead of an image's index: the slot stays empty.
  static constexpr int64_t left_out = -1;

  SlotFiller(std::shared_ptr<const Source> source, const LoaderOptions& options);

  /// Uninitialised [slots, 3, height, width]; in pinned memory for a GPU, so that the copy to it is
  /// asynchronous.
  torch::Tensor empty_batch(int64_t slots) const;

  /// Fills images[slot] with image number `number` of this rank's epoch and returns the image's
  /// index. In evaluation a broken image is left out. In training it is replaced by the rank's next
  /// usable image, a choice that does not depend on the remaining slots.
  int64_t fill(const Epoch& epoch, int64_t number, const torch::Tensor& images, int64_t slot);

  /// Images found broken so far.
  int64_t broken() const;
  [[noreturn]] void throw_unusable() const;

 private:
  bool load_image(const Epoch& epoch, int64_t from, int64_t position, const torch::Tensor& images,
                  int64_t slot);
  void write_image(const Image& image, uint64_t seed, const torch::Tensor& images,
                   int64_t slot) const;
  bool known_broken(int64_t image) const;
  void report_broken(int64_t image, const UserError& error);

  const std::shared_ptr<const Source> source_;
  const LoaderOptions options_;

  mutable std::mutex mutex_;  // guards broken_
  std::unordered_set<int64_t> broken_;
};

}  // namespace nsvq
