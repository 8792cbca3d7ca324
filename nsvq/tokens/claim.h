#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "nsvq/io/files/descriptor.h"

namespace nsvq {

/// When a claim is free again although its file is still there. Times are those that the file
/// system gives to files, so that clocks of different machines are never compared.
struct ClaimExpiry {
  std::filesystem::file_time_type now;
  std::chrono::seconds timeout;
};

/// The time at which the file system of `folder` says a file is modified now. Throws RunError.
std::filesystem::file_time_type time_on_disk(const std::filesystem::path& folder);

/// A piece of work that one of several processes has taken, on this machine or on others that share
/// the disk: a file that names its owner. While the claim lives, a thread keeps the file's time of
/// modification recent.
///
/// A claim that was taken over from an owner who was only slow leaves two processes doing the same
/// work; that must be harmless.
class Claim {
 public:
  /// None if another process has it. One whose owner ran on this machine and is gone is free at
  /// once, and one that a power cut left empty; any other when it has not been refreshed for the
  /// timeout. Throws RunError if the file cannot be written.
  static std::unique_ptr<Claim> try_take(const std::filesystem::path& file,
                                         const ClaimExpiry& expiry);
  /// Whether `try_take` would take it now.
  static bool is_free(const std::filesystem::path& file, const ClaimExpiry& expiry);
  /// Removes the file, if it is still this claim's.
  ~Claim();
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

  /// Whether the file still names this owner.
  bool held() const;

 private:
  Claim(std::filesystem::path file, std::string owner, std::chrono::seconds timeout);
  void refresh(const std::stop_token& stop, std::chrono::milliseconds period);

  std::filesystem::path file_;
  std::string owner_;  ///< what the file says
  Descriptor refreshed_;
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread thread_;
};

}  // namespace nsvq
