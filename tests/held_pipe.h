#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "nsvq/io/files/file.h"

namespace nsvq {

/// A named pipe that tells whether any process of a command is left: they hold it open.
class HeldPipe {
 public:
  explicit HeldPipe(std::filesystem::path path) : path_(std::move(path)) {
    EXPECT_EQ(::mkfifo(path_.c_str(), 0600), 0);
    end_ = Descriptor(::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  }

  /// A command that has started once await_start returns, and that does not end by itself, nor do
  /// the processes that it starts.
  std::string endless_command() const {
    return fmt::format("exec 9>'{}'; sleep 1000000 & echo started >&9; sleep 1000000; true",
                       path_.string());
  }
  /// A command like it whose processes write zeros to standard output without end.
  std::string endless_zeros() const {
    return fmt::format("exec 9>'{}'; echo started >&9; cat /dev/zero | cat; true", path_.string());
  }
  void await_start() const { EXPECT_TRUE(wait_for(POLLIN)); }
  void await_end() {
    char text[16];
    EXPECT_GT(::read(end_.get(), text, sizeof text), 0);
    EXPECT_TRUE(wait_for(POLLHUP)) << "a process is left";
  }

 private:
  /// The limit is for a test that fails.
  bool wait_for(int16_t event) const {
    pollfd events = {end_.get(), POLLIN, 0};
    while (::poll(&events, 1, 60'000) > 0) {
      if (events.revents & event) return true;
    }
    return false;
  }

  std::filesystem::path path_;
  Descriptor end_;
};

}  // namespace nsvq
