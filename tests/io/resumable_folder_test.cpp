#include "nsvq/io/files/resumable_folder.h"

#include <gtest/gtest.h>

#include <fstream>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

const ResumableFolder::Settings kSettings = {{"command", "test"}, {"format", "png"}};

std::span<const std::byte> letters(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

int64_t count_in(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

TEST(ResumableFolder, IsCompletedInSeveralRuns) {
  const TemporaryFolder folder;
  const auto path = folder / "a/out/";
  {
    ResumableFolder out(path, kSettings);
    EXPECT_EQ(out.done(), 0);
    out.write("x/0", letters("zero"));
    out.advance(3, {1, 2});
    out.write("x/3", letters("not recorded"));
  }
  EXPECT_TRUE(fs::exists(fs::path(path) / ".nsvq-incomplete.json"));
  {
    ResumableFolder out(path, kSettings);
    EXPECT_EQ(out.done(), 3);
    EXPECT_EQ(out.left_out(), (std::vector<int64_t>{1, 2}));
    out.write("x/3", letters("three"));
    out.advance(4);
    out.finish();
  }
  EXPECT_EQ(count_in(path), 2);  // x and the record
  EXPECT_EQ(read_text(fs::path(path) / "x/0"), "zero");
  EXPECT_EQ(read_text(fs::path(path) / "x/3"), "three");
}

TEST(ResumableFolder, TellsTheSettingsThatItWasBegunWith) {
  const TemporaryFolder folder;
  const auto path = folder / "out";
  EXPECT_FALSE(recorded_settings(path));
  {
    ResumableFolder out(path, kSettings);
    out.write("0", letters("zero"));
    out.advance(1);
    EXPECT_EQ(recorded_settings(path), kSettings);
  }
  EXPECT_EQ(recorded_settings(path), kSettings);
  ResumableFolder(path, kSettings).finish();
  EXPECT_EQ(recorded_settings(path), kSettings) << "complete";
  write_text(fs::path(path) / ".nsvq-complete.json", "damaged");
  EXPECT_FALSE(recorded_settings(path));
}

TEST(ResumableFolder, IsKnownToBeComplete) {
  const TemporaryFolder folder;
  const auto path = folder / "out";
  const auto fill = [&] {
    ResumableFolder out(path, kSettings);
    if (out.done() > 0) return out.finish();
    out.write("0", letters("zero"));
    out.advance(2, {1});
    out.finish();
  };
  fill();
  {
    ResumableFolder out(path, kSettings);
    EXPECT_EQ(out.done(), 2);
    EXPECT_EQ(out.left_out(), std::vector<int64_t>{1});
    const auto name_of = [](int64_t position) { return std::to_string(position); };
    out.require_done({.positions = 2, .leaves_out = true}, name_of);
    out.require_done({.positions = 9, .files = 1, .leaves_out = true}, name_of);
    const auto error =
        error_of([&] { out.require_done({.positions = 9, .leaves_out = true}, name_of); });
    expect_contains(error, {".nsvq-complete.json", "of 2", "makes 9"});
    out.finish();
  }
  const auto other = error_of([&] { ResumableFolder(path, {{"command", "test"}}); });
  expect_contains(other,
                  {path.string(), "was made with other settings: format png there, none now"});

  fs::remove(path / "0");  // rm out/*
  fill();
  EXPECT_EQ(read_text(path / "0"), "zero");
  fs::remove(path / ".nsvq-complete.json");
  expect_contains(error_of([&] { ResumableFolder(path, kSettings); }), {"not an empty folder"});
}

TEST(ResumableFolder, RecordsAfterANumberOfFiles) {
  const TemporaryFolder folder;
  const auto record = folder / ".nsvq-incomplete.json";
  ResumableFolder out(folder.path(), kSettings, 2);
  const auto begun = read_text(record);
  out.write("0", letters("0"));
  out.advance(1);
  EXPECT_EQ(read_text(record), begun);
  out.write("1", letters("1"));
  out.advance(2);
  EXPECT_NE(read_text(record).find("\"done\":2"), std::string::npos) << read_text(record);
}

TEST(ResumableFolder, LeavesNoTraceWhereNothingWasWritten) {
  const TemporaryFolder folder;
  { ResumableFolder out(folder / "new", kSettings); }
  EXPECT_FALSE(fs::exists(folder / "new"));
  fs::create_directory(folder / "empty");
  { ResumableFolder out(folder / "empty", kSettings); }
  EXPECT_TRUE(fs::is_empty(folder / "empty"));
}

/// Without its record the folder of a killed run would count as the user's.
TEST(ResumableFolder, KeepsTheRecordOfAnEarlierRunThatCameNotFar) {
  const TemporaryFolder folder;
  std::ofstream(folder / "0") << "written after the last record";
  std::ofstream(folder / ".nsvq-incomplete.json")
      << R"({"format":"nsvq-incomplete-folder","version":1,"done":0,"settings":)"
      << R"({"command":"test","format":"png"},"left_out":[]})";
  for (int i = 0; i < 2; ++i) EXPECT_EQ(ResumableFolder(folder.path(), kSettings).done(), 0);
  {
    ResumableFolder out(folder.path(), kSettings);
    out.write("0", letters("0"));
    out.advance(1);
    out.finish();
  }
  { ResumableFolder(folder.path(), kSettings).go_back(0, "0"); }
  EXPECT_EQ(ResumableFolder(folder.path(), kSettings).done(), 0);
}

TEST(ResumableFolder, TakesWhatAKillAtTheStartLeaves) {
  const TemporaryFolder folder;
  std::ofstream(folder / ".nsvq-incomplete.tmp") << "half a rec";
  ResumableFolder out(folder.path(), kSettings);
  out.finish();
  EXPECT_FALSE(fs::exists(folder / ".nsvq-incomplete.tmp"));
  EXPECT_EQ(count_in(folder.path()), 1);  // the record
}

TEST(ResumableFolder, RefusesFoldersOfOthers) {
  const TemporaryFolder folder;
  const auto refused = [&](const fs::path& path, const ResumableFolder::Settings& settings,
                           const std::string& part) {
    const auto error = error_of([&] { ResumableFolder(path, settings); });
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  std::ofstream(folder / "file") << "x";
  refused(folder / "file", kSettings, "not an empty folder");
  refused(folder.path(), kSettings, "not an empty folder");
  {
    ResumableFolder out(folder / "begun", kSettings);
    refused(folder / "begun", kSettings, "another process");
    out.write("0", letters("0"));
  }
  refused(folder / "begun", {{"command", "test"}, {"format", "jpeg"}},
          "format png there, jpeg now");
  refused(folder / "begun", {{"command", "test"}}, "format png there, none now");
  for (const auto* text : {"", "{", "{}", "[1]", R"({"format":"nsvq-incomplete-folder"})"}) {
    std::ofstream(folder / "begun/.nsvq-incomplete.json") << text;
    refused(folder / "begun", kSettings, "is damaged");
  }
  std::ofstream(folder / "begun/.nsvq-incomplete.json")
      << R"({"format":"nsvq-incomplete-folder","version":2})";
  refused(folder / "begun", kSettings, "another version");
}

TEST(ResumableFolder, WritesNothingBehindLinks) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "out");
  fs::create_directories(folder / "mine");
  fs::create_symlink(folder / "mine/file", folder / "out/.nsvq-incomplete.tmp");
  const auto error = error_of([&] { ResumableFolder(folder / "out", kSettings); });
  EXPECT_NE(error.find("not an empty folder"), std::string::npos) << error;
  fs::remove(folder / "out/.nsvq-incomplete.tmp");

  fs::create_directory_symlink(folder / "out", folder / "link");  // the folder itself may be one
  ResumableFolder out(folder / "link", kSettings);
  out.write("a/0", letters("0"));
  fs::create_directory_symlink(folder / "mine", folder / "out/b");
  fs::create_directory_symlink(folder / "mine", folder / "out/a/c");
  for (const auto* name : {"b/0", "b/d/0", "a/c/0"}) {
    const auto refused = error_of([&] { out.write(name, letters("0")); });
    EXPECT_NE(refused.find("a link"), std::string::npos) << refused;
  }
  EXPECT_TRUE(fs::is_empty(folder / "mine"));
}

TEST(ResumableFolder, BelievesNoRecordOfFilesThatAreNotThere) {
  const TemporaryFolder folder;
  const auto path = folder / "out";
  {
    ResumableFolder out(path, kSettings);
    out.write("0", letters("0"));
    out.write("2", letters("2"));
    out.advance(3, {1});
  }
  const auto name_of = [](int64_t position) { return std::to_string(position); };
  const auto refused = [&](const ResumableFolder::Plan& plan) {
    return error_of([&] { ResumableFolder(path, kSettings).require_done(plan, name_of); });
  };
  ResumableFolder(path, kSettings).require_done({.positions = 9, .leaves_out = true}, name_of);
  ResumableFolder(path, kSettings)
      .require_done({.positions = 3, .step = 2, .leaves_out = true}, name_of);
  expect_contains(refused({.positions = 2, .leaves_out = true}), {"3 of 2", "remove the folder"});
  expect_contains(refused({.positions = 9, .step = 2, .leaves_out = true}), {"3 of 9"});
  expect_contains(refused({.positions = 9}), {"3 of 9"});
  fs::remove(path / "2");
  expect_contains(refused({.positions = 9, .leaves_out = true}), {"'2' is missing"});
  ResumableFolder(path, kSettings)
      .require_done({.positions = 9, .files = 1, .leaves_out = true}, name_of);
  for (const auto* text : {"[2,1]", "[3]", "[-1]", "[1,1]"}) {
    std::ofstream(path / ".nsvq-incomplete.json")
        << R"({"format":"nsvq-incomplete-folder","version":1,"done":3,"settings":)"
        << R"({"command":"test","format":"png"},"left_out":)" << text << "}";
    expect_contains(refused({}), {"is damaged"});
  }
}

}  // namespace
}  // namespace nsvq
