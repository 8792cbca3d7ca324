#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "nsvq/data/loader/loader.h"
#include "nsvq/data/loader/sampler.h"
#include "nsvq/data/loader/slot_filler.h"

namespace nsvq {

/// Throws UserError where an epoch of training data has no batch.
void require_a_batch(const Sampler& sampler);

/// The loader's threads: they decode and transform images (slot_filler.h) into batches in CPU
/// memory, fp32 or uint8.
class BatchMaker {
 public:
  BatchMaker(const std::shared_ptr<const Source>& source, const LoaderOptions& options);
  ~BatchMaker();
  BatchMaker(const BatchMaker&) = delete;
  BatchMaker& operator=(const BatchMaker&) = delete;

  const LoaderOptions& options() const { return options_; }
  int64_t batches_per_epoch() const { return sampler_.batches(); }
  void start(int64_t epoch, int64_t batch, int64_t used = 0);
  std::optional<Batch> next();
  /// The next batch without waiting; nullopt if it is unfinished or failed, or at the end of the
  /// epoch.
  std::optional<Batch> next_if_ready();
  int64_t broken() const { return filler_.broken(); }

 private:
  struct Pending;

  static Batch finished(Pending& pending);
  std::shared_ptr<const Epoch> make_epoch(int64_t number, int64_t first_batch, int64_t used) const;
  void stop_reading();
  void work(const std::stop_token& stop);
  void work_until_stopped(const std::stop_token& stop);
  bool open_slot();
  std::shared_ptr<Pending> first_batch(bool wait);
  void make(Pending& pending, int64_t slot);

  const std::shared_ptr<const Source> source_;
  const LoaderOptions options_;
  const Sampler sampler_;
  SlotFiller filler_;

  std::mutex mutex_;                      // guards the members below
  std::condition_variable_any work_;      // notified when a slot may be unclaimed
  std::condition_variable_any finished_;  // notified when a batch is finished
  std::exception_ptr failure_;            // set by a thread that could not continue
  std::shared_ptr<const Epoch> epoch_;
  std::deque<std::shared_ptr<Pending>> queue_;  // batches in the order of delivery
  int64_t next_batch_ = 0;                      // number of the next batch to append
  int64_t first_batch_ = 0;
  int64_t delivered_ = 0;  // images delivered since start()

  std::vector<std::jthread> threads_;  // last member: joined before the others are destroyed
};

}  // namespace nsvq
