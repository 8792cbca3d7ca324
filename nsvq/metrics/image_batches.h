#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "nsvq/metrics/image_pairs.h"

namespace nsvq {

/// Calls `use` with batches of `load(i)` for 0 <= i < count, in order. A few are loaded ahead, each
/// in a thread; neighbours of one size share a batch, small batches for large images. `title` is
/// that of the progress bar.
void for_each_batch(const std::string& title, int64_t count,
                    const std::function<ImagePair(int64_t)>& load,
                    const std::function<void(const EvalBatch&)>& use);

}  // namespace nsvq
