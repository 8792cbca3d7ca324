#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <torch/types.h>

#include <optional>

namespace nsvq {

/// Pixels on their way to a device.
struct Upload {
  torch::Tensor bytes;               ///< on the device
  std::optional<c10::Event> copied;  ///< of a GPU: they are there
};

/// Takes pixels to a device as bytes and makes them floats there. On a GPU the copy runs on a
/// stream of its own, beside the work on what came before it.
class Feeder {
 public:
  explicit Feeder(c10::Device device);

  /// Begins the copy; `bytes` [B, 3, H, W], in page-locked memory where the device is a GPU, may be
  /// let go at once.
  Upload send(const torch::Tensor& bytes) const;
  /// The pixels as floats in [-1, 1], for the current stream, which waits for the copy. The floats
  /// are those that `transform` writes on a CPU, bit for bit.
  torch::Tensor receive(Upload upload) const;

 private:
  c10::Device device_;
  torch::Tensor levels_;  // [256], the float of each byte
  std::optional<c10::Stream> stream_;
};

}  // namespace nsvq
