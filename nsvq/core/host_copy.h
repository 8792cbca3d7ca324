#pragma once

#include <c10/core/Event.h>
#include <torch/types.h>

#include <optional>

namespace nsvq {

/// An asynchronous copy of a tensor to the CPU. The host waits only in `get`, so it can enqueue
/// more work on the device in the meantime.
class HostCopy {
 public:
  /// Enqueues the copy on the current stream. A CPU tensor is not copied: `get` returns it.
  explicit HostCopy(const torch::Tensor& tensor);

  /// Waits for the copy and returns the CPU tensor.
  torch::Tensor get() const;

 private:
  torch::Tensor host_;
  std::optional<c10::Event> arrived_;
};

}  // namespace nsvq
