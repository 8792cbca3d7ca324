#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "nsvq/dist/group.h"

namespace nsvq {

/// Heartbeats of the ranks, in the store through which they met. A thread of each rank counts up
/// its own sign and reads those of all others, whatever the thread that trains is doing: a process
/// that writes a large checkpoint is alive, one that is stopped or whose machine hangs is not.
class Peers {
 public:
  /// `store` is used by that thread alone while this object lives.
  Peers(c10::intrusive_ptr<c10d::Store> store, int rank, int size, double timeout,
        OnLostRank on_lost);
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  void tell_step(int64_t step) {
    step_ = step;
    began_ = true;
  }
  /// Publishes why this rank ends, for the messages of other ranks.
  void tell_failure(const std::string& message);
  /// After a failed collective: waits until the signs tell which rank is lost, and calls on_lost,
  /// with `what` if they do not tell.
  [[noreturn]] void report_failure(const std::string& what);

 private:
  struct Sign;
  void beat(const std::stop_token& stop);
  void watch(const std::stop_token& stop);
  void read_signs(std::vector<Sign>& signs);
  void lose(const std::string& message);

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_, size_;
  double timeout_;
  OnLostRank on_lost_;
  std::atomic<int64_t> step_ = 0;
  std::atomic<bool> began_ = false, collective_failed_ = false, lost_ = false;
  std::atomic<bool> fails_ = false;   ///< this rank ends itself: others may be gone before it
  std::atomic<double> last_contact_;  ///< when the store last answered, by the steady clock
  std::mutex mutex_;
  std::string failure_;  ///< this rank's, for `beat` to publish
  bool told_ = false;
  std::jthread beat_, watch_;
};

}  // namespace nsvq
