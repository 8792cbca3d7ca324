#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <torch/types.h>

#include <deque>
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

/// Records work, without doing it, on a device whose stream is an OwnStream. Throws RunError if the
/// work waits for the device on its way; little can be done in the process after that.
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

 private:
  c10::Device device_;
  bool enabled_;
  std::string kind_;
  int done_ = 0;  ///< of this kind, as they are
  torch::Tensor images_;
  std::unique_ptr<RecordedWork> recorded_;
};

/// Keeps the host from running far ahead of a GPU, with what every step on its way holds in memory.
class Pace {
 public:
  explicit Pace(c10::Device device) : device_(device) {}
  /// After a step: waits for one that was given to the GPU some steps before.
  void step();

 private:
  c10::Device device_;
  std::deque<c10::Event> steps_;
};

}  // namespace nsvq
