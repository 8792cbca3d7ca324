#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "nsvq/io/files/file.h"

namespace nsvq {

/// When a claim whose file still exists expires. Times are the file system's, so that clocks of
/// different machines are never compared.
struct ClaimExpiry {
  std::filesystem::file_time_type now;
  std::chrono::seconds timeout;
};

/// The file system's present time, as it stamps files in `folder`. Throws RunError.
std::filesystem::file_time_type time_on_disk(const std::filesystem::path& folder);

/// Exclusive ownership of a piece of work, among processes of all machines that share the disk: a
/// file that names its owner. While the claim lives, a thread keeps the file's modification time
/// recent.
///
/// If a claim of a slow owner expires, two processes do the same work; that must be harmless.
class Claim {
 public:
  /// nullptr if another process has the claim. A claim is free at once if its owner ran on this
  /// machine and has ended, or if a power cut left its file empty; else once it has not been
  /// refreshed for the timeout. Throws RunError if the file cannot be written.
  static std::unique_ptr<Claim> try_take(const std::filesystem::path& file,
                                         const ClaimExpiry& expiry);
  /// Whether `try_take` would succeed now.
  static bool is_free(const std::filesystem::path& file, const ClaimExpiry& expiry);
  /// Removes the file if it still names this owner.
  ~Claim();
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

  /// Whether the file still names this owner.
  bool held() const;

 private:
  Claim(std::filesystem::path file, std::string owner, std::chrono::seconds timeout);
  void refresh(const std::stop_token& stop, std::chrono::milliseconds period);

  std::filesystem::path file_;
  std::string owner_;  ///< the file's text
  Descriptor refreshed_;
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread thread_;
};

}  // namespace nsvq
