#pragma once

#include <cstdint>
#include <functional>

namespace nsvq {

/// task(0) ... task(count - 1), in no order, on up to at::get_num_threads() threads, the caller's
/// among them. Rethrows the first exception. Unlike at::parallel_for, which is a plain loop in
/// files that are compiled without OpenMP, and runs them one by one as threads come free.
void parallel_tasks(int64_t count, const std::function<void(int64_t)>& task);

}  // namespace nsvq
