// Programs that are started by lists of arguments.

#include "nsvq/io/processes/spawn.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/descriptor.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/processes/exec_words.h"

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

}  // namespace
}  // namespace nsvq
