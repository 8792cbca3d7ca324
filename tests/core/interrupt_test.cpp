#include "nsvq/core/interrupt.h"
#include "tests/reset_signals.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

namespace nsvq {
namespace {

class Interrupt : public testing::Test {
 protected:
  void SetUp() override { reset_signals(); }
  void TearDown() override {
    reset_signals();
    catch_interrupts();  // forgets earlier signals
    reset_signals();
  }
};

TEST_F(Interrupt, EachStopSignalHasItsExitCode) {
  for (const auto& [number, code] : {std::pair(SIGINT, 130), {SIGTERM, 143}, {SIGHUP, 143}}) {
    catch_interrupts();
    EXPECT_FALSE(interrupted());
    EXPECT_NO_THROW(throw_if_interrupted());
    errno = 77;
    raise(number);
    EXPECT_EQ(errno, 77) << "of the call that the signal came into";
    EXPECT_TRUE(interrupted());
    try {
      throw_if_interrupted();
      ADD_FAILURE() << number;
    } catch (const Interrupted& stop) {
      EXPECT_EQ(stop.exit_code(), code);
    }
  }
}

TEST_F(Interrupt, ACheckpointRequestIsNoStop) {
  catch_interrupts();
  EXPECT_FALSE(checkpoint_requested());
  raise(SIGUSR1);
  EXPECT_FALSE(interrupted());
  EXPECT_TRUE(checkpoint_requested());
  EXPECT_FALSE(checkpoint_requested()) << "asked once";
}

TEST_F(Interrupt, WhatIsIgnoredStaysIgnored) {
  signal(SIGHUP, SIG_IGN);  // nohup
  catch_interrupts();
  raise(SIGHUP);
  EXPECT_FALSE(interrupted());
  signal(SIGHUP, SIG_DFL);
}

using InterruptDeathTest = Interrupt;

TEST_F(InterruptDeathTest, ASecondCtrlCEndsTheProcess) {
  EXPECT_EXIT(
      {
        catch_interrupts();
        raise(SIGINT);
        raise(SIGINT);
      },
      testing::KilledBySignal(SIGINT), "stopping and saving");
}

// A terminal that closes sends SIGHUP, and a launcher may send its own after it.
TEST_F(InterruptDeathTest, OtherSignalsLeaveTheStopUnderWay) {
  EXPECT_EXIT(
      {
        catch_interrupts();
        for (const int number : {SIGHUP, SIGINT, SIGTERM, SIGTERM, SIGHUP}) raise(number);
        std::_Exit(Interrupted().exit_code());
      },
      testing::ExitedWithCode(143), "^\nnsvq: stopping and saving [^\n]*\n$");
}

TEST_F(InterruptDeathTest, TheFirstOneDoesWhileThereIsNothingToSave) {
  EXPECT_EXIT(
      {
        catch_interrupts();
        const StopAtOnceGuard starting;
        raise(SIGTERM);
      },
      testing::KilledBySignal(SIGTERM), "");
  catch_interrupts();
  { const StopAtOnceGuard starting; }
  raise(SIGTERM);
  EXPECT_TRUE(interrupted()) << "and no longer";
}

}  // namespace
}  // namespace nsvq
