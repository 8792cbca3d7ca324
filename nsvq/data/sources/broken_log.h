#pragma once

#include <cstdint>
#include <mutex>
#include <string_view>
#include <unordered_set>

namespace nsvq {

/// Names the broken images of a source in the log: each once, however many loaders meet it, and the
/// first few only. Thread-safe.
class BrokenLog {
 public:
  static constexpr size_t most_named = 20;

  /// `why` begins with the image's name.
  void report(int64_t image, std::string_view why);

 private:
  std::mutex mutex_;
  std::unordered_set<int64_t> known_;
};

}  // namespace nsvq
