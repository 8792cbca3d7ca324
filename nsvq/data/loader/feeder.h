#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <torch/types.h>

#include <optional>

namespace nsvq {

/// Pixels whose copy to a device has been started.
struct Upload {
  torch::Tensor bytes;               ///< [B, 3, H, W] uint8, on the device
  std::optional<c10::Event> copied;  ///< on a GPU: recorded after the copy
};

/// Copies pixels to a device as bytes and converts them to floats there. On a GPU the copy runs on
/// a side stream, concurrently with the work on the batch before.
class Feeder {
 public:
  explicit Feeder(c10::Device device);

  /// Starts the copy of `bytes` [B, 3, H, W] uint8 (in pinned memory if the device is a GPU). The
  /// caller may release them at once.
  Upload send(const torch::Tensor& bytes) const;
  /// [B, 3, H, W] fp32 in [-1, 1], equal bit for bit to what `transform` writes on a CPU. The
  /// current stream waits for the copy; the host does not.
  torch::Tensor receive(Upload upload) const;

 private:
  c10::Device device_;
  torch::Tensor levels_;  // [256] fp32, the value of each byte
  std::optional<c10::Stream> stream_;
};

}  // namespace nsvq
