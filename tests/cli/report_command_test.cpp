#include <gtest/gtest.h>
#include <sys/stat.h>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/runs/folder.h"
#include "tests/cli/log_only_run.h"
#include "tests/cli/run.h"
#include "tests/error_of.h"

namespace nsvq {
namespace {

class ReportCommand : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
};

TEST_F(ReportCommand, OneRunOrAllBelowAFolder) {
  put_run(folder_ / "runs" / "a");
  put_run(folder_ / "runs" / "deep" / "b");
  const auto runs = (folder_ / "runs").string(), out = (folder_ / "page.html").string();
  const auto one = run({"report", runs + "/a"});
  EXPECT_EQ(one.code, 0) << one.error;
  EXPECT_EQ(one.out, runs + "/a/report.html\n");
  EXPECT_NE(read_text(runs + "/a/report.html").find("\"no_codes\":\""), std::string::npos);
  EXPECT_EQ(run({"report", runs, runs + "/a", "--out", out}).code, 0);
  const auto page = read_text(out);
  EXPECT_NE(page.find("<title>a and b</title>"), page.npos) << "each once";
}

TEST_F(ReportCommand, RunsOfOneNameAreToldApart) {
  put_run(folder_ / "x" / "a");
  put_run(folder_ / "y" / "a");
  const auto out = (folder_ / "page.html").string();
  EXPECT_EQ(
      run({"report", (folder_ / "x/a").string(), (folder_ / "y/a").string(), "--out", out}).code,
      0);
  expect_contains(read_text(out), {"/x/a\"", "/y/a\""});
}

TEST_F(ReportCommand, WhatIsNoRun) {
  expect_failure(run({"report", (folder_ / "nowhere").string()}), 2, {"nowhere", "no such folder"});
  expect_failure(run({"report", folder_.path().string()}), 2, {"no run in it"});
}

TEST_F(ReportCommand, ThePageMakesItsFolder) {
  put_run(folder_ / "a");
  const auto run_folder = (folder_ / "a").string();
  const auto page = folder_ / "none/x.html";
  const auto made = run({"report", run_folder, "--out", page.string()});
  EXPECT_EQ(made.code, 0) << made.error;
  EXPECT_TRUE(std::filesystem::exists(page));
  expect_failure(run({"report", run_folder, "--out", (page / "y.html").string()}), 2,
                 {"x.html is not a folder"});
}

TEST_F(ReportCommand, NothingOfARunIsADeviceOrAPipe) {
  const auto path = folder_ / "a", page = path / "report.html",
             sample = path / "samples/epoch-1.png";
  put_run(path);
  std::filesystem::create_symlink("/dev/null", page);
  expect_failure(run({"report", path.string()}), 2, {page.string(), "a device or a pipe"});
  std::filesystem::remove(page);
  ASSERT_EQ(::mkfifo(page.c_str(), 0600), 0);
  expect_failure(run({"report", path.string()}), 2, {page.string(), "a device or a pipe"});
  expect_contains(error_of([&] { refuse_links(path); }), {"report.html", "a device or a pipe"});
  std::filesystem::remove(page);
  refuse_links(path);
  std::filesystem::create_symlink("/dev/null", sample);
  expect_contains(error_of([&] { refuse_links(path); }), {"epoch-1.png", "a device or a pipe"});
}

}  // namespace
}  // namespace nsvq
