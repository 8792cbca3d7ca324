#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "nsvq/dist/group.h"

namespace nsvq {

/// Signs of life of the ranks, in the store through which they met. A thread of each rank counts up
/// its own sign and looks at those of all others, whatever the thread that trains is doing: one
/// that writes a large checkpoint is alive, a process that is stopped or whose machine hangs is
/// not.
class Peers {
 public:
  /// `store` is used by the thread alone while this object lives.
  Peers(c10::intrusive_ptr<c10d::Store> store, int rank, int size, double timeout,
        OnLostRank on_lost);
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  void tell_step(int64_t step) {
    step_ = step;
    began_ = true;
  }
  /// Others that notice the end of this rank say why.
  void tell_failure(const std::string& message);
  /// After a failed collective: waits until the signs tell which rank is lost, and calls on_lost.
  /// `what` is said if they do not.
  [[noreturn]] void report_failure(const std::string& what);

 private:
  struct Sign;
  void beat(const std::stop_token& stop);
  void watch(const std::stop_token& stop);
  void look(std::vector<Sign>& signs);
  void lose(const std::string& message);

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_, size_;
  double timeout_;
  OnLostRank on_lost_;
  std::atomic<int64_t> step_ = 0;
  std::atomic<bool> began_ = false, collective_failed_ = false, lost_ = false;
  std::atomic<bool> fails_ = false;   ///< this rank ends by itself: others may be gone before it
  std::atomic<double> last_contact_;  ///< with the store, in seconds of the steady clock
  std::mutex mutex_;
  std::string failure_;  ///< of this rank, not told yet
  bool told_ = false;
  std::jthread beat_, watch_;
};

}  // namespace nsvq
