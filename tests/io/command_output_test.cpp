#include "nsvq/io/processes/command_output.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>

#include "nsvq/core/temporary_folder.h"
#include "tests/held_pipe.h"

namespace nsvq {
namespace {

std::string all_of(CommandOutput& output) {
  std::string all, piece(1000, '\0');
  while (const size_t got = output.read(piece)) all.append(piece, 0, got);
  return all;
}

TEST(CommandOutput, IsRead) {
  CommandOutput output("printf 'one\\n'; seq 2 3");
  EXPECT_EQ(all_of(output), "one\n2\n3\n");
  EXPECT_TRUE(output.finish().success);
}

TEST(CommandOutput, MayBeLong) {
  CommandOutput output("head -c 3000000 /dev/zero; echo end");
  EXPECT_EQ(all_of(output), std::string(3'000'000, '\0').append("end\n"));
  EXPECT_TRUE(output.finish().success);
}

TEST(CommandOutput, AFailureTellsStatusAndLastLine) {
  CommandOutput output("echo first >&2; printf 'it did not work\\n' >&2; exit 7");
  EXPECT_EQ(all_of(output), "");
  const auto end = output.finish();
  EXPECT_FALSE(end.success);
  EXPECT_EQ(end.text, "exit status 7, 'it did not work'");
  CommandOutput silent("exit 3");
  EXPECT_EQ(silent.finish().text, "exit status 3");
  CommandOutput killed("kill -KILL $$");
  EXPECT_EQ(killed.finish().text, "killed by signal 9");
  CommandOutput unknown("/no/such/program");
  EXPECT_NE(unknown.finish().text.find("exit status 127, "), std::string::npos);
}

TEST(CommandOutput, TheFirstOfAPipelineMayHaveFailed) {
  CommandOutput output("{ echo 'not there' >&2; false; } | cat");
  EXPECT_EQ(all_of(output), "");
  const auto end = output.finish();
  EXPECT_TRUE(end.success);
  EXPECT_EQ(end.text, "exit status 0, 'not there'");
}

TEST(CommandOutput, ManyErrorsDoNotBlock) {
  CommandOutput output("head -c 1000000 /dev/zero >&2; echo after; head -c 1000000 /dev/zero >&2");
  EXPECT_EQ(all_of(output), "after\n");
  EXPECT_TRUE(output.finish().success);
}

TEST(CommandOutput, ReadsNothingOfStandardInput) {
  CommandOutput output("cat");
  EXPECT_EQ(all_of(output), "");
  EXPECT_TRUE(output.finish().success);
}

TEST(CommandOutput, NothingIsLeftOfACommandThatIsGivenUp) {
  const TemporaryFolder folder;
  HeldPipe pipe(folder / "pipe");
  auto output = std::make_unique<CommandOutput>(pipe.endless_command());
  pipe.await_start();
  output.reset();
  pipe.await_end();
}

TEST(CommandOutput, NothingIsLeftInTheBackground) {
  const TemporaryFolder folder;
  HeldPipe pipe(folder / "pipe");
  CommandOutput output("{ " + pipe.endless_command() + "; } >/dev/null & echo text");
  EXPECT_EQ(all_of(output), "text\n");
  pipe.await_start();
  EXPECT_TRUE(output.finish().success);
  pipe.await_end();
}

TEST(CommandOutput, StopEndsAReadThatWaits) {
  const TemporaryFolder folder;
  HeldPipe pipe(folder / "pipe");
  CommandOutput output(pipe.endless_command());
  std::jthread reader([&] { EXPECT_EQ(all_of(output), ""); });
  pipe.await_start();
  output.stop();
  reader.join();
  pipe.await_end();
}

}  // namespace
}  // namespace nsvq
