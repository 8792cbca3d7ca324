#pragma once

#include <unistd.h>

#include <utility>

namespace nsvq {

/// A file descriptor that is closed on every way out; -1: none.
class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(Descriptor&& other) noexcept : value_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }

  int get() const { return value_; }
  explicit operator bool() const { return value_ >= 0; }
  /// The caller closes it.
  int release() { return std::exchange(value_, -1); }

 private:
  int value_;
};

}  // namespace nsvq
