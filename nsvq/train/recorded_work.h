#pragma once

#include <c10/core/Device.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <string>

namespace nsvq {

/// While it lives, this thread's work for a GPU goes into a stream of its own, as recording needs
/// it. Nothing on a CPU.
class OwnStream {
 public:
  explicit OwnStream(c10::Device device);
  ~OwnStream();
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Work for a GPU, recorded once and then given to it as a whole (a CUDA graph). It reads and
/// writes the same memory every time.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  virtual void run() = 0;
};

/// Records work, without doing it, on a device whose stream is an OwnStream. Throws c10::Error if
/// the work waits for the device on its way.
std::unique_ptr<RecordedWork> record(const std::function<void()>& work, c10::Device device);

/// Does steps that are the same work every time: the first few as they are, since libraries choose
/// their algorithms then, the others as a recording.
class StepRecorder {
 public:
  /// Without `enabled` every step is done as it is.
  StepRecorder(c10::Device device, bool enabled) : device_(device), enabled_(enabled) {}

  using Step = std::function<void(const torch::Tensor& images)>;
  /// Steps of another kind are recorded anew.
  void run(const std::string& kind, const torch::Tensor& images, const Step& step);
  bool enabled() const { return enabled_; }
  /// The next step is done as it is again, and the recording's memory is given back.
  void forget();

 private:
  c10::Device device_;
  bool enabled_;
  std::string kind_;
  int done_ = 0;  ///< of this kind, as they are
  torch::Tensor images_;
  std::unique_ptr<RecordedWork> recorded_;
};

}  // namespace nsvq
