#include "nsvq/data/loader/batch_maker.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"

namespace nsvq {

/// A batch that threads are filling, each its own slots. `claimed`, `missing` and `error` are
/// guarded by BatchMaker::mutex_.
struct BatchMaker::Pending {
  std::shared_ptr<const Epoch> epoch;
  int64_t first_slot = 0;
  int64_t claimed = 0;  // slots handed to threads
  int64_t missing = 0;  // slots not finished yet
  std::once_flag allocated;
  torch::Tensor images;
  std::vector<int64_t> indices;  // image in each slot, or SlotFiller::left_out
  std::exception_ptr error;
  int64_t error_slot = 0;  // the lowest slot that failed, so that every run reports the same error
};

/// Moves images and indices out of a finished batch; slots of broken images are removed.
Batch BatchMaker::finished(Pending& pending) {
  Batch batch{std::move(pending.images), std::move(pending.indices)};
  int64_t kept = 0;
  for (int64_t i = 0; i < std::ssize(batch.indices); ++i) {
    if (batch.indices[i] == SlotFiller::left_out) continue;
    if (kept != i) batch.images[kept].copy_(batch.images[i]);
    batch.indices[kept++] = batch.indices[i];
  }
  if (kept != std::ssize(batch.indices)) batch.images = batch.images.narrow(0, 0, kept);
  batch.indices.resize(kept);
  return batch;
}

void require_a_batch(const Sampler& sampler) {
  if (sampler.batches() > 0) return;
  throw UserError(
      "the training data has {}, fewer than one batch of {}{}; use more images or a smaller batch",
      count_of(sampler.images, "image"), sampler.batch_size,
      sampler.world > 1 ? fmt::format(" on each of {} processes", sampler.world) : "");
}

BatchMaker::BatchMaker(const std::shared_ptr<const Source>& source, const LoaderOptions& options)
    : source_(source),
      options_(options),
      sampler_{source->size(), options.batch_size, options.shuffle,
               options.seed,   options.rank,       options.world},
      filler_(source, options) {
  if (options.batch_size < 1) throw UserError("batch size {} is less than 1", options.batch_size);
  if (options.transform.output_height() < 1 || options.transform.output_width() < 1)
    throw UserError("image size {} x {} is less than 1", options.transform.output_height(),
                    options.transform.output_width());
  if (options.shuffle) require_a_batch(sampler_);
  for (int i = 0; i < std::max(options.threads, 1); ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
}

BatchMaker::~BatchMaker() { stop_reading(); }

/// Threads that wait for ReadAhead continue with an error, which is dropped with their batch.
void BatchMaker::stop_reading() {
  if (epoch_ && epoch_->ahead) epoch_->ahead->stop();
}

std::shared_ptr<const Epoch> BatchMaker::make_epoch(int64_t number, int64_t first_batch,
                                                    int64_t used) const {
  const auto* shards = source_->shards();
  if (!shards) {
    auto order = sampler_.order(number);
    order.erase(order.begin(), order.begin() + std::min<int64_t>(used, std::ssize(order)));
    auto sampler = sampler_;
    sampler.images = std::ssize(order);
    return std::make_shared<const Epoch>(Epoch{number, std::move(order), sampler, nullptr});
  }
  if (used > 0) {  // which images were used depends on the number of processes
    throw UserError(
        "commands (pipe:) cannot continue within an epoch with a different number of processes or "
        "images per step; resume with the run's numbers");
  }
  auto plan = plan_stream(shards->shard_starts(), sampler_, number, options_.shuffle_buffer);
  Epoch epoch{number, std::vector<int64_t>(sampler_.images, SlotFiller::left_out), sampler_,
              nullptr};
  for (int64_t slot = 0; slot < std::ssize(plan.images); ++slot) {
    epoch.order[sampler_.position(slot)] = plan.images[slot];
  }
  epoch.ahead =
      std::make_shared<ReadAhead>(source_, std::move(plan), first_batch * options_.batch_size);
  return std::make_shared<const Epoch>(std::move(epoch));
}

void BatchMaker::start(int64_t epoch, int64_t batch, int64_t used) {
  stop_reading();
  auto fresh = make_epoch(epoch, batch, used);
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
  while (const auto pending = first_batch(/*wait=*/true)) {
    Batch batch = finished(*pending);
    delivered_ += std::ssize(batch.indices);
    if (!batch.indices.empty()) return batch;
  }
  if (delivered_ == 0 && first_batch_ == 0 && epoch_->sampler.slots() > 0) filler_.throw_unusable();
  return std::nullopt;
}

std::optional<Batch> BatchMaker::next_if_ready() {
  const auto pending = first_batch(/*wait=*/false);
  if (!pending) return std::nullopt;
  Batch batch = finished(*pending);
  delivered_ += std::ssize(batch.indices);
  if (batch.indices.empty()) return std::nullopt;
  return batch;
}

/// The first batch of the queue, once finished; null at the end of the epoch. With `wait` false,
/// also null if that batch is unfinished or failed.
std::shared_ptr<BatchMaker::Pending> BatchMaker::first_batch(bool wait) {
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

/// Whether the last batch of the queue has an unclaimed slot, after appending a batch if there is
/// room for one. The caller holds mutex_.
bool BatchMaker::open_slot() {
  if (!epoch_) return false;
  if (!queue_.empty() && queue_.back()->claimed < std::ssize(queue_.back()->indices)) return true;
  const bool room = std::ssize(queue_) < std::max(options_.prefetch, 1);
  const auto& sampler = epoch_->sampler;
  if (!room || next_batch_ >= sampler.batches()) return false;
  const int64_t slots = sampler.batch_slots(next_batch_);
  auto pending = std::make_shared<Pending>();
  pending->epoch = epoch_;
  pending->first_slot = next_batch_ * options_.batch_size;
  pending->missing = slots;
  pending->indices.assign(slots, SlotFiller::left_out);
  queue_.push_back(std::move(pending));
  ++next_batch_;
  return true;
}

/// A thread's main function. Errors that no image causes (no memory for a batch, for instance) are
/// thrown by the next call of first_batch: an exception that left the thread would end the program.
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
      slot = pending->claimed++;
    }
    make(*pending, slot);
  }
}

void BatchMaker::make(Pending& pending, int64_t slot) {
  std::exception_ptr error;
  try {
    std::call_once(pending.allocated,
                   [&] { pending.images = filler_.empty_batch(std::ssize(pending.indices)); });
    pending.indices[slot] =
        filler_.fill(*pending.epoch, pending.first_slot + slot, pending.images, slot);
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

}  // namespace nsvq
