#pragma once

#include <cstdint>
#include <functional>

namespace nsvq {

/// task(0) ... task(count - 1), in no order, on up to at::get_num_threads() threads of ATen's, the
/// caller's among them; each takes the next task when it has finished one. Rethrows the first
/// exception.
void parallel_tasks(int64_t count, const std::function<void(int64_t)>& task);

}  // namespace nsvq
