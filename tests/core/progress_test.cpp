#include "nsvq/core/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "nsvq/core/log.h"

namespace nsvq {
namespace {

/// Replaces standard error by a descriptor until it is destroyed.
class Redirect {
 public:
  explicit Redirect(int descriptor) : saved_(::dup(STDERR_FILENO)) {
    ::dup2(descriptor, STDERR_FILENO);
  }
  ~Redirect() {
    ::dup2(saved_, STDERR_FILENO);
    ::close(saved_);
  }

 private:
  int saved_;
};

/// Standard error as a file.
class LogFile {
 public:
  LogFile() : file_(std::tmpfile()), redirect_(::fileno(file_)) {}
  ~LogFile() { std::fclose(file_); }

  std::string text() const {
    std::string text(1 << 20, '\0');
    const ssize_t size = ::pread(::fileno(file_), text.data(), text.size(), 0);
    text.resize(size > 0 ? static_cast<size_t>(size) : 0);
    return text;
  }

 private:
  std::FILE* file_;
  Redirect redirect_;
};

/// Standard error as a terminal of `columns`.
class FakeTerminal {
 public:
  explicit FakeTerminal(unsigned short columns)
      : master_(open_master()), slave_(open_slave(master_, columns)), redirect_(slave_) {
    ::setenv("TERM", "xterm", 1);
  }
  ~FakeTerminal() {
    ::close(slave_);
    ::close(master_);
  }

  std::string text() const {
    std::string text, piece(4096, '\0');
    ssize_t size = 0;
    while ((size = ::read(master_, piece.data(), piece.size())) > 0) text.append(piece, 0, size);
    return text;
  }

 private:
  static int open_master() {
    const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
    ::fcntl(master, F_SETFL, O_NONBLOCK);
    ::grantpt(master);
    ::unlockpt(master);
    return master;
  }
  static int open_slave(int master, unsigned short columns) {
    const int slave = ::open(::ptsname(master), O_RDWR | O_NOCTTY);
    winsize size{24, columns, 0, 0};
    ::ioctl(slave, TIOCSWINSZ, &size);
    return slave;
  }

  int master_, slave_;
  Redirect redirect_;
};

/// The lines that a terminal shows after `text`, the last of them the one with the cursor.
std::vector<std::string> screen(const std::string& text) {
  std::vector<std::string> lines{""};
  size_t column = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') {
      lines.emplace_back();
      column = 0;
    } else if (text[i] == '\r') {
      column = 0;
    } else if (text.compare(i, 3, "\x1b[K") == 0) {
      lines.back().resize(column);
      i += 2;
    } else {
      if (lines.back().size() <= column) lines.back().resize(column + 1);
      lines.back()[column++] = text[i];
    }
  }
  return lines;
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// A clock that moves only when told.
class FakeClock {
 public:
  Progress::Now now() const {
    return [this] { return time_; };
  }
  void pass(double seconds) {
    time_ += std::chrono::round<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
  }

 private:
  std::chrono::steady_clock::time_point time_;
};

constexpr double kUntilRedraw = 0.12;

TEST(FormatDuration, MinutesAndHours) {
  EXPECT_EQ(format_duration(0), "0:00");
  EXPECT_EQ(format_duration(7.4), "0:07");
  EXPECT_EQ(format_duration(59.6), "1:00");
  EXPECT_EQ(format_duration(185), "3:05");
  EXPECT_EQ(format_duration(3723), "1:02:03");
  EXPECT_EQ(format_duration(360000), "100:00:00");
  EXPECT_EQ(format_duration(-1), "0:00");
  EXPECT_EQ(format_duration(std::numeric_limits<double>::infinity()), "?");
  EXPECT_EQ(format_duration(std::numeric_limits<double>::quiet_NaN()), "?");
}

TEST(Log, WritesOneLine) {
  LogFile file;
  log("epoch {} of {}", 3, 10);
  EXPECT_EQ(file.text(), "epoch 3 of 10\n");
}

TEST(Progress, InALogPrintsOneFinalLine) {
  LogFile file;
  FakeClock clock;
  {
    Progress progress("train", 50, "img", 30, 0, clock.now());
    for (int i = 0; i <= 50; ++i) progress.update(i, "loss 0.5");
    clock.pass(8);
  }
  EXPECT_EQ(file.text(), "train 50/50 100%  6.25 img/s  in 0:08  loss 0.5\n");
}

TEST(Progress, InALogPrintsALineNowAndThen) {
  LogFile file;
  FakeClock clock;
  Progress progress("train", 4, "step", 10, 0, clock.now());
  clock.pass(9.9);
  progress.update(1);
  EXPECT_EQ(file.text(), "");
  clock.pass(0.1);
  progress.update(2);
  progress.update(3);
  clock.pass(9.9);
  progress.update(3);
  EXPECT_EQ(file.text(), "train 2/4  50%  0.20 step/s  ETA 0:10\n");
}

TEST(Progress, FinishesOnce) {
  LogFile file;
  Progress progress("train", 4, "step", 0);
  progress.finish();
  progress.finish();
  progress.update(3);
  EXPECT_EQ(count(file.text(), "\n"), 1u) << file.text();
}

TEST(Progress, TotalOfZero) {
  LogFile file;
  Progress("empty", 0, "img").update(0);
  EXPECT_EQ(file.text().find("empty 0/0 100%"), 0u) << file.text();
}

TEST(Progress, ResumedStepsDoNotCountInTheRate) {
  LogFile file;
  Progress("train", 2000000, "step", 30, 1000000).finish();
  EXPECT_NE(file.text().find("1000000/2000000  50%  0.00 step/s"), std::string::npos)
      << file.text();
}

TEST(Progress, WhatWasCompleteBeforeHasNoRate) {
  LogFile file;
  {
    Progress progress("tokenize", 900, "images", 30, 900);
    progress.update(900);
  }
  EXPECT_EQ(file.text(), "tokenize 900/900 images: complete already, nothing to do\n");
}

TEST(Progress, WhatWasCompleteBeforeFitsIntoATerminal) {
  FakeTerminal terminal(20);
  Progress("tokenize", 900, "images", 30, 900).finish();
  const auto lines = screen(terminal.text());
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], "tokenize 900/900 im");
}

TEST(Progress, OnATerminalRedrawsOneLine) {
  FakeTerminal terminal(80);
  FakeClock clock;
  Progress progress("train", 100, "img", 30, 0, clock.now());
  clock.pass(kUntilRedraw);
  progress.update(50, "loss 0.25");
  std::string text = terminal.text();
  EXPECT_EQ(count(text, "\n"), 0u);
  EXPECT_EQ(count(text, "\r\x1b[K"), 2u);
  EXPECT_EQ(screen(text).back().find("train [###"), 0u) << screen(text).back();
  EXPECT_NE(text.find(" 50/100  50%"), std::string::npos);
  EXPECT_NE(text.find("loss 0.25"), std::string::npos);
  progress.update(100);
  progress.finish();
  text += terminal.text();
  const auto lines = screen(text);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[0].find("100/100 100%"), std::string::npos) << lines[0];
  EXPECT_EQ(lines[0].find("ETA"), std::string::npos) << lines[0];
  EXPECT_EQ(lines[1], "");
}

TEST(Progress, OnATerminalDrawsSeldom) {
  FakeTerminal terminal(80);
  FakeClock clock;
  Progress progress("train", 10000, "img", 30, 0, clock.now());
  for (int i = 0; i < 10000; ++i) {
    clock.pass(0.001);
    progress.update(i);
  }
  EXPECT_EQ(count(terminal.text(), "\r"), 101u);  // at once, then ten times a second
}

TEST(Progress, NeverWraps) {
  for (const unsigned short width : {1, 2, 10, 31, 33, 40, 60, 79, 200}) {
    FakeTerminal terminal(width);
    FakeClock clock;
    Progress progress("a title with some words", 1000000, "images", 30, 0, clock.now());
    clock.pass(kUntilRedraw);
    progress.update(123456, "a note\nthat is \x1b[31mlonger than the terminal is likely to be");
    progress.finish();
    for (const std::string& line : screen(terminal.text())) {
      EXPECT_LT(line.size(), std::max<size_t>(width, 2)) << width << ": " << line;
      EXPECT_EQ(line.find('\x1b'), std::string::npos);
    }
  }
}

TEST(Progress, CutsBetweenCharacters) {
  FakeTerminal terminal(8);
  Progress progress("\u00e4\u00f6\u00fc\u00e4\u00f6\u00fc\u00e4\u00f6\u00fc", 1, "img");
  EXPECT_EQ(terminal.text(), "\r\x1b[K\u00e4\u00f6\u00fc\u00e4\u00f6\u00fc\u00e4");
}

TEST(Progress, LogLinesStandAboveTheBar) {
  FakeTerminal terminal(80);
  Progress progress("train", 100, "img");
  log("a checkpoint");
  auto lines = screen(terminal.text());
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], "a checkpoint");
  EXPECT_EQ(lines[1].find("train ["), 0u);
  progress.finish();
  terminal.text();
  log("after");
  EXPECT_EQ(terminal.text(), "after\r\n");
}

TEST(Progress, ThreadsDoNotMixTheirLines) {
  LogFile file;
  {
    Progress progress("train", 4000, "img", 0);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&progress, t] {
        for (int i = 0; i < 500; ++i) {
          progress.update(i);
          log("line from {}", t);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  const std::string text = file.text();
  EXPECT_EQ(count(text, "\n"), 4001u);
  EXPECT_EQ(count(text, "\nline from ") + count(text, "\ntrain "), 4000u);
}

}  // namespace
}  // namespace nsvq
