#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

namespace nsvq {

/// Runs task(0) ... task(count - 1) in any order on up to at::get_num_threads() threads of ATen's
/// pool, including the caller's; a thread takes the next task when it has finished one. Rethrows
/// the first exception; tasks not yet started may then be skipped. Tasks must not call tensor
/// operators: worker threads inherit neither NoGradGuard nor autocast from the caller.
void parallel_tasks(int64_t count, const std::function<void(int64_t)>& task);

/// Splits 0 .. count - 1 into ranges of `size` (the last may be shorter) and runs task(begin, end)
/// for each.
template <typename Task>
void parallel_ranges(int64_t count, int64_t size, const Task& task) {
  parallel_tasks((count + size - 1) / size,
                 [&](int64_t range) { task(range * size, std::min((range + 1) * size, count)); });
}

}  // namespace nsvq
