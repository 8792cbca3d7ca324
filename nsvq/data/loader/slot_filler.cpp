#include "nsvq/data/loader/slot_filler.h"

#include <span>
#include <utility>

#include "nsvq/core/random.h"

namespace nsvq {

SlotFiller::SlotFiller(std::shared_ptr<const Source> source, const LoaderOptions& options)
    : source_(std::move(source)), options_(options) {}

torch::Tensor SlotFiller::empty_batch(int64_t slots) const {
  const auto options = at::TensorOptions(options_.bytes ? at::kByte : at::kFloat);
  return at::empty(
      {slots, 3, options_.transform.output_height(), options_.transform.output_width()},
      options.pinned_memory(!options_.device.is_cpu()));
}

int64_t SlotFiller::fill(const Epoch& epoch, int64_t number, const torch::Tensor& images,
                         int64_t slot) {
  const auto& sampler = epoch.sampler;
  const int64_t position = sampler.position(number);
  if (!options_.shuffle) {
    return load_image(epoch, number, position, images, slot) ? epoch.order[position] : left_out;
  }
  const int64_t slots = sampler.slots();
  for (int64_t i = 0; i < slots; ++i) {
    const int64_t from = (number + i) % slots;
    if (load_image(epoch, from, position, images, slot)) {
      return epoch.order[sampler.position(from)];
    }
  }
  throw_unusable();
}

/// Loads image number `from` of this rank's epoch with the random crop and flip of `position`;
/// false if it is broken.
bool SlotFiller::load_image(const Epoch& epoch, int64_t from, int64_t position,
                            const torch::Tensor& images, int64_t slot) {
  const int64_t image = epoch.order[epoch.sampler.position(from)];
  if (known_broken(image)) return false;
  try {
    const uint64_t seed = combine_seeds(
        {options_.seed, static_cast<uint64_t>(epoch.number), static_cast<uint64_t>(position)});
    write_image(epoch.ahead ? epoch.ahead->load(from) : source_->load(image), seed, images, slot);
    return true;
  } catch (const UserError& error) {
    if (options_.on_error == OnError::stop) throw;
    report_broken(image, error);
    return false;
  }
}

void SlotFiller::write_image(const Image& image, uint64_t seed, const torch::Tensor& images,
                             int64_t slot) const {
  const auto count = static_cast<size_t>(images.stride(0));
  const auto write = [&](auto* first) {
    transform(image, options_.transform, seed, std::span(first + slot * count, count));
  };
  if (options_.bytes) {
    write(images.data_ptr<uint8_t>());
  } else {
    write(images.data_ptr<float>());
  }
}

int64_t SlotFiller::broken() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(broken_.size());
}

bool SlotFiller::known_broken(int64_t image) const {
  const std::lock_guard lock(mutex_);
  return broken_.contains(image);
}

void SlotFiller::report_broken(int64_t image, const UserError& error) {
  {
    const std::lock_guard lock(mutex_);
    broken_.insert(image);
  }
  source_->broken_log().report(image, error.what());
}

void SlotFiller::throw_unusable() const {
  throw UserError("no image can be decoded ({} in all); the first is {}", source_->size(),
                  source_->key(0));
}

}  // namespace nsvq
