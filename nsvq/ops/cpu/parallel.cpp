#include "nsvq/ops/cpu/parallel.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>

namespace nsvq {

namespace {

/// Shared by the threads: one that starts late finds no task left and must still find this.
class Tasks {
 public:
  Tasks(int64_t count, std::function<void(int64_t)> task)
      : count_(count), task_(std::move(task)), unfinished_(count) {}

  void work() {
    for (int64_t one = next_++; one < count_; one = next_++) {
      std::exception_ptr failure;
      try {
        task_(one);
      } catch (...) {
        failure = std::current_exception();
      }
      const std::lock_guard lock(mutex_);
      if (failure && !failure_) failure_ = failure;
      if (--unfinished_ == 0) finished_.notify_one();
    }
  }

  /// Of the tasks, not of the threads: those may be busy elsewhere and never have come.
  void wait() {
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [this] { return unfinished_ == 0; });
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  const int64_t count_;
  const std::function<void(int64_t)> task_;
  std::atomic<int64_t> next_{0};
  std::mutex mutex_;
  std::condition_variable finished_;
  int64_t unfinished_;
  std::exception_ptr failure_;
};

}  // namespace

void parallel_tasks(int64_t count, const std::function<void(int64_t)>& task) {
  if (count <= 0) return;
  const auto helpers = std::min<int64_t>(at::get_num_threads(), count) - 1;
  const auto tasks = std::make_shared<Tasks>(count, task);
  for (int64_t i = 0; i < helpers; ++i) at::launch([tasks] { tasks->work(); });
  tasks->work();
  tasks->wait();
}

}  // namespace nsvq
