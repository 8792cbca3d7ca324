#include "nsvq/core/threads/parallel.h"

#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <atomic>

namespace nsvq {

// at::parallel_for runs sequentially in files compiled without OpenMP, and compiling with OpenMP
// would create a second thread pool that competes with ATen's. A TensorIterator runs inside ATen,
// so iterating over a tensor with one element per thread reaches ATen's own pool, whose threads
// keep spinning for a while between calls.
void parallel_tasks(int64_t count, const std::function<void(int64_t)>& task) {
  std::atomic<int64_t> next{0};
  const auto work = [&] {
    for (int64_t one = next++; one < count; one = next++) task(one);
  };
  const auto threads = std::min<int64_t>(at::get_num_threads(), count);
  if (threads <= 1 || at::in_parallel_region()) return work();
  const auto per_thread = at::empty({threads}, at::kByte);
  auto iterator = at::TensorIterator::borrowing_nullary_op(per_thread);
  iterator.for_each([&](char**, const int64_t*, int64_t, int64_t) { work(); }, /*grain_size=*/1);
}

}  // namespace nsvq
