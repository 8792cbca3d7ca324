#include "nsvq/train/recorded_work.h"

namespace nsvq {

struct OwnStream::Impl {};

OwnStream::OwnStream(c10::Device) {}
OwnStream::~OwnStream() = default;

std::unique_ptr<RecordedWork> record(const std::function<void()>&, c10::Device device) {
  TORCH_CHECK(false, "nothing can be recorded on ", device);
}

}  // namespace nsvq
