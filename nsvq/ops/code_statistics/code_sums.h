#pragma once

#include <torch/types.h>

namespace nsvq {

/// The sum of the latents [N, d] of each code: [codes, d] fp32, zero for a code that no index
/// names. Latents are fp32, bf16 or fp16, indices [N] int64. An operator of the dispatcher,
/// `torch.ops.nsvq.code_sums`, without gradients. Repeatable: the same bits in every run and for
/// any number of threads, since rows are added in an order that depends on the indices alone. On a
/// CPU sums are in fp64 and rounded once; on a GPU they are in fp32, in the order of the rows up to
/// 32 of a code, beyond that in 16 sums of every 16th row, and the host waits for nothing. An
/// index outside [0, codes) throws on a CPU and stops the kernel on a GPU.
torch::Tensor code_sums(const torch::Tensor& latents, const torch::Tensor& indices, int64_t codes);

/// code_sums by PyTorch's index_add.
torch::Tensor code_sums_reference(const torch::Tensor& latents, const torch::Tensor& indices,
                                  int64_t codes);

/// For kernels: throws unless shapes and types are as above.
void check_code_sums(const torch::Tensor& latents, const torch::Tensor& indices);

}  // namespace nsvq
