#include "nsvq/data/loader/feeder.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "nsvq/data/images/transform.h"

namespace nsvq {

namespace {

torch::Tensor levels_tensor() {
  const auto& levels = pixel_levels();
  return at::tensor(at::ArrayRef<float>(levels.data(), levels.size()), at::kFloat);
}

}  // namespace

Feeder::Feeder(c10::Device device) : device_(device), levels_(levels_tensor().to(device)) {
  if (device.is_cpu()) return;
  stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

Upload Feeder::send(const torch::Tensor& bytes) const {
  if (!stream_) return {bytes, {}};
  const c10::StreamGuard guard(*stream_);
  // The caching host allocator records the stream of a non-blocking copy, so the pinned memory is
  // not reused before the copy is done.
  Upload upload{bytes.to(device_, bytes.scalar_type(), /*non_blocking=*/true),
                c10::Event(device_.type())};
  upload.copied->record(*stream_);
  return upload;
}

torch::Tensor Feeder::receive(Upload upload) const {
  if (upload.copied) {
    const auto current = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
    upload.copied->block(current);
    upload.bytes.record_stream(current);
  }
  // A table look-up, because on a GPU PyTorch divides by a scalar as a multiplication by its
  // reciprocal, which rounds differently from the CPU's division.
  const auto indices = upload.bytes.flatten().to(at::kInt);
  return levels_.index_select(0, indices).view(upload.bytes.sizes());
}

}  // namespace nsvq
