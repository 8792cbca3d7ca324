#include "nsvq/data/streams/read_ahead.h"

#include <algorithm>
#include <utility>

#include "nsvq/core/error.h"

namespace nsvq {

namespace {

constexpr int64_t kMostAhead = 256;  // images read before they are due, beside the shuffle buffer
constexpr int64_t kKeptSlots =
    64;  // used slots kept, since images of later slots replace broken ones

}  // namespace

ReadAhead::ReadAhead(std::shared_ptr<const Source> source, StreamPlan plan, int64_t first_slot)
    : source_(std::move(source)),
      shards_(*source_->shards()),
      plan_(std::move(plan)),
      first_slot_(first_slot),
      states_(plan_.images.size(), State::ahead),
      wanted_(first_slot) {
  // One thread per part that is read concurrently: with fewer, a thread might wait for room while
  // the image needed next is in a part that no thread reads.
  const auto threads = std::min<size_t>(StreamPlan::kStreams, plan_.parts.size());
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

ReadAhead::~ReadAhead() { stop(); }

void ReadAhead::stop() {
  stop_.request_stop();
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

void ReadAhead::work() {
  try {
    while (const auto number = next_part()) {
      const auto& part = plan_.parts[*number];
      const auto slots = plan_.slot.begin() + plan_.first[*number];
      const auto needed = [&](int64_t slot) { return slot >= first_slot_; };
      const auto first = std::find_if(slots, slots + part.size(), needed);
      if (first == slots + part.size()) continue;
      shards_.read(
          part.shard, part.first + (first - slots), part.end,
          [&](int64_t image, std::vector<std::byte> bytes) {
            return hold(*number, image, std::move(bytes));
          },
          stop_.get_token());
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
    changed_.notify_all();
  }
}

std::optional<size_t> ReadAhead::next_part() {
  const std::lock_guard lock(mutex_);
  if (stop_.stop_requested() || failure_ || next_part_ == plan_.parts.size()) return std::nullopt;
  return next_part_++;
}

/// Waits until there is room for an image that was read; false: stop reading.
bool ReadAhead::hold(size_t part, int64_t image, std::vector<std::byte> bytes) {
  const int64_t at = plan_.first[part] + image - plan_.parts[part].first;
  const int64_t slot = plan_.slot[at];
  std::unique_lock lock(mutex_);
  if (slot < first_slot_) return !stop_.stop_requested();
  const auto due = [&] {
    return plan_.read_at[at] < wanted_ + plan_.buffer + kMostAhead || failure_;
  };
  if (!changed_.wait(lock, stop_.get_token(), due) || failure_) return false;
  held_[slot] = {std::make_shared<const std::vector<std::byte>>(std::move(bytes))};
  states_[slot] = State::held;
  changed_.notify_all();
  return true;
}

Image ReadAhead::load(int64_t slot) {
  const int64_t image = plan_.images.at(slot);
  const auto bytes = bytes_of(slot);
  return bytes ? shards_.decode(image, *bytes) : source_->load(image);
}

/// Null if they were released.
std::shared_ptr<const std::vector<std::byte>> ReadAhead::bytes_of(int64_t slot) {
  if (slot < first_slot_) return nullptr;
  std::unique_lock lock(mutex_);
  wanted_ = std::max(wanted_, slot + 1);
  release_used();
  changed_.notify_all();
  const auto there = [&] { return states_[slot] != State::ahead || failure_; };
  if (!changed_.wait(lock, stop_.get_token(), there)) throw RunError("reading was stopped");
  if (states_[slot] == State::ahead) std::rethrow_exception(failure_);
  if (states_[slot] == State::released) return nullptr;
  auto& held = held_.at(slot);
  held.used = true;
  return held.bytes;
}

/// The caller holds mutex_.
void ReadAhead::release_used() {
  // Images known to be broken are never requested.
  const int64_t long_past = wanted_ - plan_.buffer - kMostAhead;
  for (auto one = held_.begin(); one != held_.end() && one->first < wanted_ - kKeptSlots;) {
    if (one->second.used || one->first < long_past) {
      states_[one->first] = State::released;
      one = held_.erase(one);
    } else {
      ++one;
    }
  }
}

}  // namespace nsvq
