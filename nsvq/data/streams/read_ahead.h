#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "nsvq/data/sources/source.h"
#include "nsvq/data/streams/stream_plan.h"

namespace nsvq {

/// Reads a source that cannot seek, following a plan, with threads of its own, and buffers the
/// images that are needed soon, as encoded bytes.
class ReadAhead {
 public:
  /// Skips slots before `first_slot`: shards that are only needed for them are not read.
  ReadAhead(std::shared_ptr<const Source> source, StreamPlan plan, int64_t first_slot);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// The image of a slot. Slots should be requested in order, by one or several threads; an image
  /// that was released is read again alone. Throws UserError if it cannot be decoded, RunError if
  /// it cannot be read, or after `stop`.
  Image load(int64_t slot);
  /// Ends the reading, from any thread.
  void stop();

 private:
  struct Held {
    std::shared_ptr<const std::vector<std::byte>> bytes;
    bool used = false;
  };
  enum class State : uint8_t { ahead, held, released };

  void work();
  std::optional<size_t> next_part();
  bool hold(size_t part, int64_t image, std::vector<std::byte> bytes);
  std::shared_ptr<const std::vector<std::byte>> bytes_of(int64_t slot);
  void release_used();

  const std::shared_ptr<const Source> source_;
  const SequentialShards& shards_;
  const StreamPlan plan_;
  const int64_t first_slot_;
  std::stop_source stop_;

  std::mutex mutex_;                     // guards the members below
  std::condition_variable_any changed_;  // notified when any of them changes
  std::map<int64_t, Held> held_;         // by slot
  std::vector<State> states_;            // by slot
  int64_t wanted_ = 0;                   // one more than the last slot requested
  size_t next_part_ = 0;
  std::exception_ptr failure_;

  std::vector<std::jthread> threads_;  // last member: joined before the others are destroyed
};

}  // namespace nsvq
