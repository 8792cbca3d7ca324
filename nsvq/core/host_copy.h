#pragma once

#include <c10/core/Event.h>
#include <torch/types.h>

#include <optional>

namespace nsvq {

/// A tensor on its way to the CPU. Nothing waits for it before `get`, so the device may be given
/// more work meanwhile.
class HostCopy {
 public:
  /// Begins the copy, behind what the current stream was given so far. A tensor of the CPU is
  /// itself the copy.
  explicit HostCopy(const torch::Tensor& tensor);

  /// The tensor on the CPU, once it is there.
  torch::Tensor get() const;

 private:
  torch::Tensor host_;
  std::optional<c10::Event> arrived_;
};

}  // namespace nsvq
