#include "nsvq/data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <span>
#include <stop_token>
#include <thread>
#include <unordered_set>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/random.h"
#include "nsvq/data/sampler.h"

namespace nsvq {

namespace {

struct Epoch {
  int64_t number = 0;
  std::vector<int64_t> order;
};

constexpr int64_t left_out = -1;

/// A batch being made. Threads write to disjoint slots; `missing` and `error` are behind the
/// loader's mutex.
struct Pending {
  std::shared_ptr<const Epoch> epoch;
  int64_t first_slot = 0;
  int64_t taken = 0;    // slots given to threads
  int64_t missing = 0;  // slots not done yet
  std::once_flag allocated;
  torch::Tensor images;
  std::vector<int64_t> indices;  // image in each slot, or left_out
  std::exception_ptr error;
  int64_t error_slot = 0;  // the first one, so that every run reports the same error
};

/// Takes the images out of a finished batch, closing the gaps that left-out ones leave.
Batch finished_batch(Pending& pending) {
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

}  // namespace

class Loader::Impl {
 public:
  Impl(std::shared_ptr<const Source> source, LoaderOptions options);

  const Sampler& sampler() const { return sampler_; }
  void start(int64_t epoch, int64_t batch);
  std::optional<Batch> next();
  int64_t broken() const;

 private:
  void work(std::stop_token stop);
  bool open_slot();
  void make(Pending& pending, int64_t slot);
  int64_t load_slot(const Epoch& epoch, int64_t slot, std::span<float> out);
  bool load_image(const Epoch& epoch, int64_t at, int64_t position, std::span<float> out);
  bool known_broken(int64_t image) const;
  void report_broken(int64_t image, const UserError& error);
  [[noreturn]] void throw_unusable() const;

  const std::shared_ptr<const Source> source_;
  const LoaderOptions options_;
  const Sampler sampler_;

  mutable std::mutex broken_mutex_;
  std::unordered_set<int64_t> broken_;

  std::mutex mutex_;                      // guards what follows
  std::condition_variable_any work_;      // a slot may be open
  std::condition_variable_any finished_;  // a batch is done
  std::shared_ptr<const Epoch> epoch_;
  std::deque<std::shared_ptr<Pending>> queue_;  // in the order of delivery
  int64_t next_batch_ = 0;                      // to be put into the queue
  int64_t first_batch_ = 0;
  int64_t delivered_ = 0;  // images since start

  std::vector<std::jthread> threads_;  // last, so that they end before what they use
};

Loader::Impl::Impl(std::shared_ptr<const Source> source, LoaderOptions options)
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
    threads_.emplace_back([this](std::stop_token stop) { work(std::move(stop)); });
  }
}

void Loader::Impl::start(int64_t epoch, int64_t batch) {
  auto fresh = std::make_shared<const Epoch>(Epoch{epoch, sampler_.order(epoch)});
  {
    // Threads still at work on an older batch own it and let it go when done.
    const std::lock_guard lock(mutex_);
    queue_.clear();
    epoch_ = std::move(fresh);
    first_batch_ = next_batch_ = batch;
    delivered_ = 0;
  }
  work_.notify_all();
}

std::optional<Batch> Loader::Impl::next() {
  if (!epoch_) start(0, 0);
  while (true) {
    std::shared_ptr<Pending> pending;
    {
      std::unique_lock lock(mutex_);
      if (queue_.empty() && !open_slot()) break;
      pending = queue_.front();
      finished_.wait(lock, [&] { return pending->missing == 0; });
      // A failed batch stays in front: asking again gives the same error.
      if (pending->error) std::rethrow_exception(pending->error);
      queue_.pop_front();
    }
    work_.notify_all();
    Batch batch = finished_batch(*pending);
    delivered_ += static_cast<int64_t>(batch.indices.size());
    if (!batch.indices.empty()) return batch;
  }
  if (delivered_ == 0 && first_batch_ == 0 && sampler_.slots() > 0) throw_unusable();
  return std::nullopt;
}

int64_t Loader::Impl::broken() const {
  const std::lock_guard lock(broken_mutex_);
  return static_cast<int64_t>(broken_.size());
}

/// Whether the back of the queue has a slot to give away, after adding a batch if there is room for
/// one. Called with the mutex held.
bool Loader::Impl::open_slot() {
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

void Loader::Impl::work(std::stop_token stop) {
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

void Loader::Impl::make(Pending& pending, int64_t slot) {
  std::exception_ptr error;
  const int64_t height = options_.transform.output_height();
  const int64_t width = options_.transform.output_width();
  try {
    std::call_once(pending.allocated, [&] {
      pending.images =
          torch::empty({std::ssize(pending.indices), 3, height, width}, torch::kFloat32);
    });
    const auto floats = static_cast<size_t>(3 * height * width);
    float* out = pending.images.data_ptr<float>() + slot * floats;
    pending.indices[slot] = load_slot(*pending.epoch, pending.first_slot + slot, {out, floats});
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

/// Fills a slot and returns its image. A broken one is left out, or in training replaced by the
/// next usable one of this rank's share: whoever fills a slot needs to know nothing of the others.
int64_t Loader::Impl::load_slot(const Epoch& epoch, int64_t slot, std::span<float> out) {
  const int64_t position = sampler_.position(slot);
  if (!options_.shuffle) {
    return load_image(epoch, position, position, out) ? epoch.order[position] : left_out;
  }
  const int64_t slots = sampler_.slots();
  for (int64_t i = 0; i < slots; ++i) {
    const int64_t at = sampler_.position((slot + i) % slots);
    if (load_image(epoch, at, position, out)) return epoch.order[at];
  }
  throw_unusable();
}

/// Loads the image at place `at` of the epoch's order with the random crop of `position`.
bool Loader::Impl::load_image(const Epoch& epoch, int64_t at, int64_t position,
                              std::span<float> out) {
  const int64_t image = epoch.order[at];
  if (known_broken(image)) return false;
  try {
    const uint64_t seed = combine_seeds(
        {options_.seed, static_cast<uint64_t>(epoch.number), static_cast<uint64_t>(position)});
    transform(source_->load(image), options_.transform, seed, out);
    return true;
  } catch (const UserError& error) {
    if (options_.on_error == OnError::stop) throw;
    report_broken(image, error);
    return false;
  }
}

bool Loader::Impl::known_broken(int64_t image) const {
  const std::lock_guard lock(broken_mutex_);
  return broken_.contains(image);
}

void Loader::Impl::report_broken(int64_t image, const UserError& error) {
  const std::lock_guard lock(broken_mutex_);
  if (broken_.insert(image).second) log("left out a broken image: {}", error.what());
}

void Loader::Impl::throw_unusable() const {
  throw UserError("none of the {} images can be decoded; the first is {}", source_->size(),
                  source_->key(0));
}

Loader::Loader(std::shared_ptr<const Source> source, LoaderOptions options)
    : impl_(std::make_unique<Impl>(std::move(source), options)) {}

Loader::~Loader() = default;

int64_t Loader::batches_per_epoch() const { return impl_->sampler().batches(); }

void Loader::start(int64_t epoch, int64_t batch) { impl_->start(epoch, batch); }

std::optional<Batch> Loader::next() { return impl_->next(); }

int64_t Loader::broken() const { return impl_->broken(); }

}  // namespace nsvq
