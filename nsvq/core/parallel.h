#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

namespace nsvq {

/// task(0) ... task(count - 1), in no order, on up to at::get_num_threads() threads of ATen's, the
/// caller's among them; each takes the next task when it has finished one. Rethrows the first
/// exception; tasks that have not begun may then be left out. Tasks work on memory, not by tensor
/// operations: other threads have none of the caller's state (gradients, casts).
void parallel_tasks(int64_t count, const std::function<void(int64_t)>& task);

/// task(begin, end) for the ranges of `size` numbers, the last one maybe of fewer, from 0 to count.
template <typename Task>
void parallel_ranges(int64_t count, int64_t size, const Task& task) {
  parallel_tasks((count + size - 1) / size,
                 [&](int64_t range) { task(range * size, std::min((range + 1) * size, count)); });
}

}  // namespace nsvq
