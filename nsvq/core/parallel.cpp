#include "nsvq/core/parallel.h"

#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <atomic>

namespace nsvq {

// at::parallel_for is a plain loop in files that are compiled without OpenMP, and OpenMP brought
// along would be a second set of threads beside ATen's, each in the way of the other. A tensor's
// iterator is worked through inside ATen, so a tensor with an element for each thread reaches
// its threads, which stay awake for a while between two lots of tasks.
void parallel_tasks(int64_t count, const std::function<void(int64_t)>& task) {
  std::atomic<int64_t> next{0};
  const auto work = [&] {
    for (int64_t one = next++; one < count; one = next++) task(one);
  };
  const auto threads = std::min<int64_t>(at::get_num_threads(), count);
  if (threads <= 1 || at::in_parallel_region()) return work();
  const auto places = at::empty({threads}, at::kByte);
  auto iterator = at::TensorIterator::borrowing_nullary_op(places);
  iterator.for_each([&](char**, const int64_t*, int64_t, int64_t) { work(); }, /*grain_size=*/1);
}

}  // namespace nsvq
