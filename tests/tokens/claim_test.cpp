#include "nsvq/tokens/claim.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;
using std::chrono::hours;
using std::chrono::seconds;

class Claims : public testing::Test {
 protected:
  ClaimExpiry expiry() const { return {time_on_disk(folder_.path()), seconds(300)}; }
  std::unique_ptr<Claim> take() const { return Claim::try_take(file_, expiry()); }
  void shift(hours by) const { fs::last_write_time(file_, fs::last_write_time(file_) + by); }

  TemporaryFolder folder_;
  fs::path file_ = folder_ / "work.claim";
};

TEST_F(Claims, AreHeldByOneUntilLetGo) {
  {
    const auto claim = take();
    ASSERT_TRUE(claim);
    EXPECT_TRUE(claim->held());
    EXPECT_FALSE(Claim::is_free(file_, expiry()));
    EXPECT_FALSE(take());
  }
  EXPECT_FALSE(fs::exists(file_));
  EXPECT_TRUE(Claim::is_free(file_, expiry()));
  EXPECT_TRUE(take());
  EXPECT_TRUE(fs::is_empty(folder_.path())) << "nothing else stays";
}

TEST_F(Claims, OfAProcessThatIsGoneAreFreeAtOnce) {
  for (const bool reaped : {false, true}) {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto* never_let_go = take().release();
      ::_exit(never_let_go ? 0 : 1);
    }
    siginfo_t info{};
    // It has ended; its parent, this process, may not have asked for its status yet.
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | (reaped ? 0 : WNOWAIT)),
              0);
    EXPECT_EQ(info.si_status, 0);
    EXPECT_TRUE(fs::exists(file_));
    const auto claim = take();
    EXPECT_TRUE(claim) << reaped;
    if (!reaped) ::waitpid(child, nullptr, 0);
  }
}

TEST_F(Claims, OfAnotherMachineAreFreeWhenNotRefreshed) {
  for (const auto* owner :
       {R"({"host":"elsewhere","pid":1,"machine":"another","started":1,"claim":0})", "no JSON",
        R"({"pid":"x"})", R"({"machine":1,"pid":-5,"started":1e300})", "[[[["}) {
    write_text(file_, owner);
    EXPECT_FALSE(take()) << owner;
    shift(hours(-1));
    EXPECT_TRUE(take()) << owner;
    write_text(file_, owner);
    shift(hours(1));  // from before the disk's clock was set right
    EXPECT_TRUE(take()) << owner;
  }
}

TEST_F(Claims, ThatAPowerCutLeftWithoutAnOwnerAreFreeAtOnce) {
  for (const auto& owner : {std::string(), std::string(90, '\0')}) {
    write_text(file_, owner);
    EXPECT_TRUE(Claim::is_free(file_, expiry())) << owner.size();
    const auto claim = take();
    ASSERT_TRUE(claim) << owner.size();
    EXPECT_TRUE(claim->held());
    EXPECT_FALSE(take());
  }
  EXPECT_TRUE(fs::is_empty(folder_.path())) << "nothing else stays";
}

TEST_F(Claims, TheSlowOwnerOfOneTakenOverLeavesItAlone) {
  auto slow = take();
  shift(hours(-1));
  const auto claim = take();
  ASSERT_TRUE(claim);
  EXPECT_FALSE(slow->held());
  slow.reset();
  EXPECT_TRUE(claim->held());
  EXPECT_FALSE(take());
}

TEST_F(Claims, AreNotMadeWhereNothingCanBeWritten) {
  write_text(folder_ / "file", "");
  EXPECT_THROW(Claim::try_take(folder_ / "file" / "x.claim", expiry()), RunError);
  EXPECT_THROW(time_on_disk(folder_ / "file"), RunError);
}

}  // namespace
}  // namespace nsvq
