#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <string>

#include "nsvq/dist/group.h"

namespace nsvq {

// Implemented in nccl_group_cuda.cpp, or in nccl_group_no_cuda.cpp without CUDA:

/// Why the ranks of `base`, each on its `device`, cannot use NCCL; empty if they can. All ranks get
/// one answer.
std::string why_no_nccl(Group& base, c10::Device device);

/// The ranks of `base`, with collectives of GPU tensors by NCCL and those of CPU tensors by `base`.
/// Collectives of GPU tensors are queued on a stream of their own, without waiting on the host, and
/// can be captured in a CUDA graph. A group of one rank uses NCCL too.
std::shared_ptr<Group> make_nccl_group(std::shared_ptr<Group> base, c10::Device device);

}  // namespace nsvq
