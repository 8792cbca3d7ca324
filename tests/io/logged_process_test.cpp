#include "nsvq/io/processes/logged_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>

#include "nsvq/core/temporary_folder.h"
#include "tests/processes.h"

namespace {

bool killed_when_it_sends = false;

}  // namespace

/// In place of the C library's: by it a process tells the helper that kills what it started.
extern "C" ssize_t send(int socket, const void* data, size_t size, int flags) {
  if (killed_when_it_sends) ::raise(SIGKILL);
  return ::syscall(SYS_sendto, socket, data, size, flags, nullptr, 0);
}

namespace nsvq {
namespace {

void start_and_be_killed(const std::filesystem::path& folder) {
  killed_when_it_sends = true;
  const LoggedProcess process("/bin/sh", {"-c", "sleep 60; :", folder.string()}, {},
                              folder / "log.txt");
  ::raise(SIGKILL);
}

TEST(LoggedProcessDeathTest, AKillRightAfterTheStartTakesItAlong) {
  // The program is started anew, so that its helper is not that of other tests.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  constexpr auto variable = "NSVQ_TEST_FOLDER";  // the same in both
  std::optional<TemporaryFolder> own;
  if (!std::getenv(variable)) ::setenv(variable, own.emplace().path().c_str(), 1);
  const std::string folder = std::getenv(variable);
  EXPECT_EXIT(start_and_be_killed(folder), testing::KilledBySignal(SIGKILL), "");
  EXPECT_TRUE(all_processes_end(folder));
  ::unsetenv(variable);
}

}  // namespace
}  // namespace nsvq
