#pragma once

#include <torch/types.h>

namespace nsvq {

/// How often each of `codes` codes occurs in `indices` (int64, any shape): counts [codes], int64.
/// An operator of the dispatcher, `torch.ops.nsvq.code_usage`; on a GPU it needs no
/// synchronisation, unlike bincount. On the CPU an index outside [0, codes) throws; on a GPU it
/// stops the kernel.
torch::Tensor code_usage(const torch::Tensor& indices, int64_t codes);

}  // namespace nsvq
