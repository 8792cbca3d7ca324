#include "nsvq/data/batch_maker.h"

#include <algorithm>
#include <exception>
#include <span>
#include <utility>

#include "nsvq/core/random.h"

namespace nsvq {

namespace {

constexpr int64_t left_out = -1;

}  // namespace

/// A batch that threads are filling, each its own slots. `taken`, `missing` and `error` are guarded
/// by BatchMaker::mutex_.
struct BatchMaker::Pending {
  std::shared_ptr<const Epoch> epoch;
  int64_t first_slot = 0;
  int64_t taken = 0;    // slots handed to threads
  int64_t missing = 0;  // slots not finished yet
  std::once_flag allocated;
  torch::Tensor images;
  std::vector<int64_t> indices;  // image in each slot, or left_out
  std::exception_ptr error;
  int64_t error_slot = 0;  // the lowest slot that failed, so that every run reports the same error
};

/// Moves images and indices out of a finished batch; slots of broken images are removed.
Batch BatchMaker::finished(Pending& pending) {
  Batch batch{std::move(pending.images), std::move(pending.indices)};
  int64_t kept = 0;
  for (int64_t i = 0; i < std::ssize(batch.indices); ++i) {
    if (batch.indices[i] == left_out) continue;
    if (kept != i) batch.images[kept].copy_(batch.images[i]);
    batch.indices[kept++] = batch.indices[i];
  }
  if (kept != std::ssize(batch.indices)) batch.images = batch.images.narrow(0, 0, kept);
  batch.indices.resize(kept);
  return batch;
}

BatchMaker::BatchMaker(std::shared_ptr<const Source> source, LoaderOptions options)
    : source_(std::move(source)), options_(options), sampler_{source_->size(), options.batch_size,
                                                              options.shuffle, options.seed,
                                                              options.rank,    options.world} {
  if (options.batch_size < 1) throw UserError("batch size {} is less than 1", options.batch_size);
  if (options.transform.output_height() < 1 || options.transform.output_width() < 1)
    throw UserError("image size {} x {} is less than 1", options.transform.output_height(),
                    options.transform.output_width());
  if (options.shuffle && sampler_.batches() == 0) {
    throw UserError(
        "the training data has {} images, fewer than one batch of {}{}; use more images or a "
        "smaller batch",
        source_->size(), options.batch_size,
        options.world > 1 ? fmt::format(" on each of {} processes", options.world) : "");
  }
  for (int i = 0; i < std::max(options.threads, 1); ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
}

void BatchMaker::start(int64_t epoch, int64_t batch) {
  auto fresh = std::make_shared<const Epoch>(Epoch{epoch, sampler_.order(epoch)});
  {
    // A thread that still fills an older batch shares its ownership, so the batch is freed when
    // that thread is done.
    const std::lock_guard lock(mutex_);
    queue_.clear();
    epoch_ = std::move(fresh);
    first_batch_ = next_batch_ = batch;
    delivered_ = 0;
  }
  work_.notify_all();
}

std::optional<Batch> BatchMaker::next() {
  if (!epoch_) start(0, 0);
  while (const auto pending = take(/*wait=*/true)) {
    Batch batch = finished(*pending);
    delivered_ += std::ssize(batch.indices);
    if (!batch.indices.empty()) return batch;
  }
  if (delivered_ == 0 && first_batch_ == 0 && sampler_.slots() > 0) throw_unusable();
  return std::nullopt;
}

std::optional<Batch> BatchMaker::next_if_ready() {
  const auto pending = take(/*wait=*/false);
  if (!pending) return std::nullopt;
  Batch batch = finished(*pending);
  delivered_ += std::ssize(batch.indices);
  if (batch.indices.empty()) return std::nullopt;
  return batch;
}

/// The first batch of the queue, once finished; null at the end of the epoch. With `wait` false,
/// also null if that batch is unfinished or failed.
std::shared_ptr<BatchMaker::Pending> BatchMaker::take(bool wait) {
  std::shared_ptr<Pending> pending;
  {
    std::unique_lock lock(mutex_);
    if (queue_.empty() && !open_slot()) return nullptr;
    pending = queue_.front();
    const auto done = [&] { return pending->missing == 0; };
    if (!wait && (!done() || pending->error || failure_)) return nullptr;
    finished_.wait(lock, [&] { return done() || failure_; });
    if (failure_) std::rethrow_exception(failure_);
    // A failed batch stays in the queue, so that the next call throws the same error.
    if (pending->error) std::rethrow_exception(pending->error);
    queue_.pop_front();
  }
  work_.notify_all();
  return pending;
}

int64_t BatchMaker::broken() const {
  const std::lock_guard lock(broken_mutex_);
  return static_cast<int64_t>(broken_.size());
}

/// Whether the last batch of the queue has an unclaimed slot, after appending a batch if there is
/// room for one. The caller holds mutex_.
bool BatchMaker::open_slot() {
  if (!epoch_) return false;
  if (!queue_.empty() && queue_.back()->taken < std::ssize(queue_.back()->indices)) return true;
  const bool room = std::ssize(queue_) < std::max(options_.prefetch, 1);
  if (!room || next_batch_ >= sampler_.batches()) return false;
  const int64_t slots = sampler_.batch_slots(next_batch_);
  auto pending = std::make_shared<Pending>();
  pending->epoch = epoch_;
  pending->first_slot = next_batch_ * options_.batch_size;
  pending->missing = slots;
  pending->indices.assign(slots, left_out);
  queue_.push_back(std::move(pending));
  ++next_batch_;
  return true;
}

/// A thread's life. What is not the fault of one image (no memory for a batch, say) is thrown by
/// the next call of `take`: an exception that left the thread would end the program.
void BatchMaker::work(const std::stop_token& stop) {
  try {
    work_until_stopped(stop);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
    finished_.notify_all();
  }
}

void BatchMaker::work_until_stopped(const std::stop_token& stop) {
  while (true) {
    std::shared_ptr<Pending> pending;
    int64_t slot = 0;
    {
      std::unique_lock lock(mutex_);
      if (!work_.wait(lock, stop, [this] { return open_slot(); })) return;
      pending = queue_.back();
      slot = pending->taken++;
    }
    make(*pending, slot);
  }
}

/// Uninitialised [images, 3, height, width]; in pinned memory for a GPU, so that the copy to it is
/// asynchronous.
torch::Tensor BatchMaker::room_for(int64_t images) const {
  const auto options = at::TensorOptions(options_.bytes ? at::kByte : at::kFloat);
  return at::empty(
      {images, 3, options_.transform.output_height(), options_.transform.output_width()},
      options.pinned_memory(!options_.device.is_cpu()));
}

void BatchMaker::make(Pending& pending, int64_t slot) {
  std::exception_ptr error;
  try {
    std::call_once(pending.allocated,
                   [&] { pending.images = room_for(std::ssize(pending.indices)); });
    pending.indices[slot] = load_slot(pending, slot);
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  if (error && (!pending.error || slot < pending.error_slot)) {
    pending.error = error;
    pending.error_slot = slot;
  }
  if (--pending.missing == 0) finished_.notify_all();
}

/// Fills a slot and returns the index of its image. In evaluation a broken image is skipped. In
/// training it is replaced by the next usable image of this rank, a choice that does not depend on
/// other slots.
int64_t BatchMaker::load_slot(Pending& pending, int64_t slot) {
  const auto& order = pending.epoch->order;
  const int64_t place = pending.first_slot + slot;
  const int64_t position = sampler_.position(place);
  if (!options_.shuffle) {
    return load_image(pending, slot, position, position) ? order[position] : left_out;
  }
  const int64_t slots = sampler_.slots();
  for (int64_t i = 0; i < slots; ++i) {
    const int64_t at = sampler_.position((place + i) % slots);
    if (load_image(pending, slot, at, position)) return order[at];
  }
  throw_unusable();
}

/// Loads image order[at] of the epoch with the random crop and flip of `position`; false if it is
/// broken.
bool BatchMaker::load_image(Pending& pending, int64_t slot, int64_t at, int64_t position) {
  const int64_t image = pending.epoch->order[at];
  if (known_broken(image)) return false;
  try {
    const uint64_t seed =
        combine_seeds({options_.seed, static_cast<uint64_t>(pending.epoch->number),
                       static_cast<uint64_t>(position)});
    write_image(source_->load(image), seed, pending, slot);
    return true;
  } catch (const UserError& error) {
    if (options_.on_error == OnError::stop) throw;
    report_broken(image, error);
    return false;
  }
}

void BatchMaker::write_image(const Image& image, uint64_t seed, Pending& pending,
                             int64_t slot) const {
  const auto& images = pending.images;
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

bool BatchMaker::known_broken(int64_t image) const {
  const std::lock_guard lock(broken_mutex_);
  return broken_.contains(image);
}

void BatchMaker::report_broken(int64_t image, const UserError& error) {
  {
    const std::lock_guard lock(broken_mutex_);
    broken_.insert(image);
  }
  source_->broken_log().report(image, error.what());
}

void BatchMaker::throw_unusable() const {
  throw UserError("0 of {} images can be decoded; the first is {}", source_->size(),
                  source_->key(0));
}

}  // namespace nsvq
