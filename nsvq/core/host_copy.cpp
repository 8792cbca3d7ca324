#include "nsvq/core/host_copy.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace nsvq {

HostCopy::HostCopy(const torch::Tensor& tensor) : host_(tensor) {
  if (tensor.is_cpu()) return;
  const auto device = tensor.device();
  // Pinned: a copy to pageable memory would block the host.
  host_ = at::empty(tensor.sizes(), at::TensorOptions(tensor.scalar_type()).pinned_memory(true));
  host_.copy_(tensor, /*non_blocking=*/true);
  arrived_.emplace(device.type());
  arrived_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

torch::Tensor HostCopy::get() const {
  if (arrived_) arrived_->synchronize();
  return host_;
}

}  // namespace nsvq
