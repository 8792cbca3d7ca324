#include "nsvq/dist/peers.h"

#include <chrono>
#include <utility>
#include <vector>

#include "nsvq/core/error.h"

namespace nsvq {

namespace {

using namespace std::chrono_literals;

constexpr auto kBeat = 250ms;
/// Seconds without a new sign after which, when a connection breaks, a process counts as the one
/// that broke it.
constexpr double kQuiet = 1.5;
/// Seconds for which signs are read after a connection broke.
constexpr double kReads = 3;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string key(const char* what, int rank) { return fmt::format("{}/{}", what, rank); }

std::vector<uint8_t> bytes(const std::string& text) { return {text.begin(), text.end()}; }

}  // namespace

/// The last sign of a rank.
struct Peers::Sign {
  std::string text;  ///< count of beats and step, as last seen
  double since = 0;  ///< when it changed
  int64_t step = 0;
};

Peers::Peers(c10::intrusive_ptr<c10d::Store> store, int rank, int size, double timeout,
             OnLostRank on_lost)
    : store_(std::move(store)),
      rank_(rank),
      size_(size),
      timeout_(timeout),
      on_lost_(std::move(on_lost)),
      last_contact_(now()) {
  beat_ = std::jthread([this](const std::stop_token& stop) { beat(stop); });
  watch_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

Peers::~Peers() {
  watch_.request_stop();
  beat_.request_stop();
}

void Peers::tell_failure(const std::string& message) {
  fails_ = true;
  {
    const std::lock_guard lock(mutex_);
    failure_ = fmt::format("rank {}{}: {}", rank_,
                           began_ ? fmt::format(" at step {}", step_ + 1) : "", message);
  }
  for (int i = 0; i < 40; ++i) {  // `beat` has the store
    std::this_thread::sleep_for(25ms);
    const std::lock_guard lock(mutex_);
    if (told_) return;
  }
}

void Peers::report_failure(const std::string& what) {
  collective_failed_ = true;
  const double start = now();
  while (now() - start < kReads + 1) std::this_thread::sleep_for(50ms);  // on_lost ends us
  // All ranks live, but two cannot reach each other: the others learn it from them.
  const auto message = fmt::format("a connection to another process broke at step {} ({})",
                                   step_ + 1, what.substr(0, what.find('\n')));
  tell_failure(message);
  if (!lost_.exchange(true)) on_lost_(message);
  throw RunError("{}", what);
}

void Peers::lose(const std::string& message) {
  if (!fails_ && !lost_.exchange(true)) on_lost_(message);
}

/// Does everything that asks the store, which may hang if the network does.
void Peers::beat(const std::stop_token& stop) {
  std::vector<Sign> signs(size_);
  for (auto& sign : signs) sign.since = now();
  for (uint64_t count = 0; !stop.stop_requested(); ++count) {
    try {
      {
        const std::lock_guard lock(mutex_);
        if (!failure_.empty() && !told_) {
          store_->set(key("failure", rank_), bytes(failure_));
          told_ = true;
        }
      }
      store_->set(key("sign", rank_), bytes(fmt::format("{} {}", count, step_.load())));
      read_signs(signs);
      last_contact_ = now();
    } catch (const std::exception&) {
      // Rank 0 or the launcher holds the store.
      if (!stop.stop_requested()) {
        lose(
            fmt::format("the connection to rank 0 or to the launcher broke at step {}", step_ + 1));
      }
      return;
    }
    std::this_thread::sleep_for(kBeat);
  }
}

void Peers::read_signs(std::vector<Sign>& signs) {
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    auto& sign = signs[rank];
    if (store_->check({key("failure", rank)})) {
      const auto text = store_->get(key("failure", rank));
      lose(std::string(text.begin(), text.end()));
    }
    if (store_->check({key("sign", rank)})) {
      const auto raw = store_->get(key("sign", rank));
      const std::string text(raw.begin(), raw.end());
      if (text != sign.text) {
        sign.since = now();
        sign.text = text;
        sign.step = std::strtoll(text.c_str() + std::min(text.find(' '), text.size()), nullptr, 10);
      }
    }
    const double quiet = now() - sign.since;
    if (quiet > timeout_) {
      lose(fmt::format("rank {} has given no sign of life for {:.0f} s, since step {}", rank, quiet,
                       sign.step + 1));
    } else if (collective_failed_ && quiet > kQuiet) {
      lose(fmt::format("rank {} is gone since step {}", rank, sign.step + 1));
    }
  }
}

/// Notices that `beat` itself waits for a store that no longer answers.
void Peers::watch(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::this_thread::sleep_for(kBeat);
    if (now() - last_contact_ < timeout_ + 1) continue;
    lose(fmt::format("no answer from rank 0 or the launcher for {:.0f} s, since step {}", timeout_,
                     step_ + 1));
    return;
  }
}

}  // namespace nsvq
