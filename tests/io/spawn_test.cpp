#include "nsvq/io/processes/spawn.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <thread>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "tests/environment.h"
#include "tests/processes.h"

namespace nsvq {
namespace {

/// What a program prints; its exit status must be 0.
std::string printed(const std::string& program, const std::vector<std::string>& arguments,
                    const std::vector<std::string>& environment = {}) {
  const TemporaryFolder folder;
  const auto path = folder / "out";
  {
    const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    SpawnOptions options;
    options.output = file.get();
    options.environment = environment;
    const pid_t process = spawn_program(program, arguments, options);
    EXPECT_GT(process, 0);
    int status = -1;
    ::waitpid(process, &status, 0);
    EXPECT_EQ(status, 0);
  }
  return read_text(path);
}

TEST(SpawnProgram, NoShellReadsTheArguments) {
  const std::vector<std::string> words = {"a b", "$HOME", "`id`", "; echo no", "'\"\\", "*", ""};
  std::string expected;
  for (const auto& word : words) expected += word + "\n";
  std::vector<std::string> arguments = {"%s\\n"};
  arguments.insert(arguments.end(), words.begin(), words.end());
  EXPECT_EQ(printed("printf", arguments), expected);
}

TEST(SpawnProgram, HasTheVariablesOverThoseOfThisProcess) {
  ::setenv("NSVQ_SPAWN_TEST", "old", 1);
  ::setenv("NSVQ_SPAWN_TEST_2", "kept", 1);
  EXPECT_EQ(
      printed("printenv", {"NSVQ_SPAWN_TEST", "NSVQ_SPAWN_TEST_2"}, {"NSVQ_SPAWN_TEST=new; $HOME"}),
      "new; $HOME\nkept\n");
  ::unsetenv("NSVQ_SPAWN_TEST");
  ::unsetenv("NSVQ_SPAWN_TEST_2");
}

TEST(SpawnProgram, InheritsNoOtherDescriptors) {
  const Descriptor open(::open("/dev/null", O_RDONLY));  // without O_CLOEXEC
  EXPECT_GE(open.get(), 3);
  EXPECT_EQ(printed("ls", {"/proc/self/fd"}), "0\n1\n2\n3\n");  // the last one is that folder
}

TEST(SpawnProgram, ThatIsNotThereIsAnError) {
  EXPECT_EQ(spawn_program("/no/such/program", {}, {}), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(spawn_program("/etc/passwd", {}, {}), -1);
  EXPECT_EQ(errno, EACCES);
}

TEST(SpawnProgram, EndsBySigpipeAlsoIfThisProcessIgnoresIt) {
  struct sigaction ignore {
  }, before{};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &before);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Descriptor write_end(ends[1]);
  SpawnOptions options;
  options.output = write_end.get();
  const pid_t process = spawn_program("cat", {"/dev/zero"}, options);
  ASSERT_GT(process, 0);
  ::close(ends[0]);
  int status = 0;
  ::waitpid(process, &status, 0);
  ::sigaction(SIGPIPE, &before, nullptr);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE) << status;
}

TEST(SpawnProgram, IsKilledWhenTheThreadThatStartedItEnds) {
  pid_t process = -1;
  std::thread([&] { process = spawn_program("sleep", {"1000000"}, {}); }).join();
  ASSERT_GT(process, 0);
  int status = 0;
  ::waitpid(process, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

void start_and_be_killed(const std::filesystem::path& folder) {
  const LoggedProcess process("/bin/sh", {"-c", "while :; do sleep 1; done", folder.string()}, {},
                              folder / "log.txt");
  ::raise(SIGKILL);
}

TEST(LoggedProcessDeathTest, IsKilledWithTheProcessThatStartedIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // runs this test anew in a second process
  constexpr auto variable = "NSVQ_TEST_FOLDER";    // which finds the folder by this
  std::optional<TemporaryFolder> own;
  if (!std::getenv(variable)) ::setenv(variable, own.emplace().path().c_str(), 1);
  const std::string folder = std::getenv(variable);
  EXPECT_EXIT(start_and_be_killed(folder), testing::KilledBySignal(SIGKILL), "");
  EXPECT_TRUE(all_processes_end(folder));
  ::unsetenv(variable);
}

}  // namespace
}  // namespace nsvq
