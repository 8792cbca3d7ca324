#include "nsvq/io/files/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/atomic_file.h"
#include "nsvq/io/files/input_file.h"
#include "tests/error_of.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

/// The message of the error that `action` throws, which must be of type Error and one line.
template <typename Error, typename Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  }
  ADD_FAILURE() << "nothing of the expected type was thrown";
  return "";
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

size_t entries_in(const fs::path& folder) {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(File, AFullDiskIsToldFromOtherFailures) {
  const auto full = open_file("/dev/full", O_WRONLY);
  ASSERT_TRUE(full);
  const auto message =
      message_of<NoRoom>([&] { write_all("name", full.get(), std::vector<std::byte>(10)); });
  EXPECT_EQ(message, "cannot write name: No space left on device");
  EXPECT_THROW(fail_write("name", EDQUOT), NoRoom);
  for (const int error : {EIO, EFBIG, EACCES}) {
    try {
      fail_write("name", error);
    } catch (const NoRoom&) {
      ADD_FAILURE() << error;
    } catch (const RunError&) {
    }
  }
}

TEST(File, ReadsWhatWasWritten) {
  TemporaryFolder folder;
  for (const size_t size : {0, 1, 31, 33, 4096, 100001}) {
    std::vector<std::byte> bytes(size);
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 % 256);
    write_file(folder / "bytes", bytes);
    EXPECT_EQ(read_file(folder / "bytes"), bytes);
  }
  write_text(folder / "text", "one\0two\n");
  write_text(folder / "text", std::string("one\0two\n", 8));
  EXPECT_EQ(read_text(folder / "text"), std::string("one\0two\n", 8));
  EXPECT_EQ(entries_in(folder.path()), 2u) << "a temporary file was left";
}

TEST(File, MakesMissingFolders) {
  TemporaryFolder folder;
  write_text(folder / "a/b/c.txt", "text");
  EXPECT_EQ(read_text(folder / "a/b/c.txt"), "text");
  append_line(folder / "d/e.jsonl", "{}");
  EXPECT_EQ(read_text(folder / "d/e.jsonl"), "{}\n");
}

TEST(File, FoldersThatTheUserNames) {
  TemporaryFolder folder;
  EXPECT_TRUE(make_named_folder(folder / "a/b"));
  EXPECT_FALSE(make_named_folder(folder / "a/b")) << "not new";
  write_text(folder / "file", "text");
  for (const auto& name : {std::string("file/below"), std::string(300, 'n')}) {
    const auto text = "cannot create folder " + (folder / name).string();
    EXPECT_TRUE(holds(message_of<UserError>([&] { make_named_folder(folder / name); }), text));
    EXPECT_TRUE(holds(message_of<RunError>([&] { make_folders(folder / name); }), text));
  }
}

TEST(File, NamesThatCannotBeLookedUp) {
  TemporaryFolder folder;
  write_text(folder / "file", "text");
  fs::create_symlink(folder / "none", folder / "dangling");
  EXPECT_TRUE(path_exists(folder / "file") && path_exists(folder.path()));
  for (const auto* name : {"none", "dangling", "file/below"}) {
    EXPECT_FALSE(path_exists(folder / name)) << name;
  }
  const auto name = std::string(300, 'n');
  EXPECT_TRUE(holds(message_of<UserError>([&] { path_exists(folder / name); }), "name too long"));
}

TEST(File, ReadsFilesWithoutASize) { EXPECT_FALSE(read_text("/proc/self/status").empty()); }

TEST(File, OnlyAStreamWaitsForAPipe) {
  TemporaryFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(message_of<UserError>([&] { read_text(pipe); }),
            "cannot read " + pipe + ": not a file");
  EXPECT_TRUE(
      holds(message_of<UserError>([] { read_file("/dev/zero"); }), "/dev/zero: not a file"));
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "text", 4), 4);
  ::close(ends[1]);
  const auto bytes = read_stream("/dev/fd/" + std::to_string(ends[0]));
  ::close(ends[0]);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), "text");
  EXPECT_EQ(message_of<UserError>([&] { read_stream(folder / "none"); }),
            "cannot read " + (folder / "none").string() + ": No such file or directory");
}

TEST(File, ReadErrorsNameThePath) {
  TemporaryFolder folder;
  const std::string missing = folder / "missing.txt";
  EXPECT_EQ(message_of<UserError>([&] { read_text(missing); }),
            "cannot read " + missing + ": No such file or directory");
  EXPECT_TRUE(holds(message_of<UserError>([&] { read_file(folder.path()); }), "Is a directory"));
}

TEST(File, WriteErrorsNameThePath) {
  TemporaryFolder folder;
  EXPECT_EQ(message_of<RunError>([] { write_text("/dev/full", "text"); }),
            "cannot write /dev/full: No space left on device");
  EXPECT_EQ(message_of<RunError>([] { append_line("/dev/full", "text"); }),
            "cannot write /dev/full: No space left on device");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  EXPECT_TRUE(
      holds(message_of<RunError>([&] { write_text(folder.path(), "x"); }), "Is a directory"));
  write_text(folder / "file", "text");
  EXPECT_TRUE(holds(message_of<RunError>([&] { write_text(folder / "file/below", "x"); }),
                    (folder / "file").string()));
}

TEST(File, NoPermission) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write anywhere";
  TemporaryFolder folder;
  fs::create_directory(folder / "closed");
  ::chmod((folder / "closed").c_str(), 0555);
  EXPECT_TRUE(holds(message_of<RunError>([&] { write_text(folder / "closed/file", "x"); }),
                    "Permission denied"));
}

TEST(File, WritesDevicesDirectly) {
  write_text("/dev/null", "text");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(AtomicFile, AppearsWithCommit) {
  TemporaryFolder folder;
  write_text(folder / "file", "old");
  {
    AtomicFile file(folder / "file");
    file.write(std::vector<std::byte>(10));
    EXPECT_EQ(read_text(folder / "file"), "old");
  }
  EXPECT_EQ(read_text(folder / "file"), "old");
  EXPECT_EQ(entries_in(folder.path()), 1u);
  AtomicFile file(folder / "file");
  file.write(std::vector<std::byte>(3, std::byte{'a'}));
  file.write(std::vector<std::byte>(2, std::byte{'b'}));
  file.commit();
  EXPECT_EQ(read_text(folder / "file"), "aaabb");
}

TEST(AtomicFile, DoesNotReplaceTheNameOfADescriptor) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "text";
  const Descriptor open(::open((folder / "file").c_str(), O_WRONLY));
  const fs::path name = fmt::format("/proc/self/fd/{}", open.get());
  fs::create_symlink(name, folder / "link");
  for (const auto& path : {fs::path(folder / "link"), fs::path("/dev/fd") / name.filename()}) {
    EXPECT_NE(error_of([&] { AtomicFile file(path); }).find("stands for an open file"),
              std::string::npos);
  }
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
}

TEST(AtomicFile, OneOfSeveralIsTheFirst) {
  TemporaryFolder folder;
  const auto make = [&](std::string_view text) {
    AtomicFile file(folder / "x");
    file.write(std::as_bytes(std::span(text)));
    return file.commit_if_new();
  };
  EXPECT_TRUE(make("first"));
  EXPECT_FALSE(make("second"));
  EXPECT_EQ(read_text(folder / "x"), "first");
  EXPECT_EQ(entries_in(folder.path()), 1u);

  int made = 0;
  for (int round = 0; round < 20; ++round) {
    fs::remove(folder / "x");
    std::atomic<int> winners{0};
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&] { winners += make("some") ? 1 : 0; });
    threads.clear();
    made += winners;
  }
  EXPECT_EQ(made, 20);
  EXPECT_EQ(entries_in(folder.path()), 1u);
}

TEST(AtomicFile, TemporaryNamesAreHidden) {
  TemporaryFolder folder;
  AtomicFile one(folder / "name"), two(folder / "name");
  const std::string start = ".name.tmp-" + std::to_string(::getpid()) + "-";
  EXPECT_EQ(entries_in(folder.path()), 2u);
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    EXPECT_EQ(entry.path().filename().string().find(start), 0u) << entry.path();
  }
}

TEST(AtomicFile, UnfinishedOnesOfKilledProcessesAreRemoved) {
  TemporaryFolder folder;
  const auto left = [&](std::initializer_list<std::string_view> beginnings) {
    for (const auto* name : {".tokens-1.tmp-1-2", ".photo.png.tmp-1-3", ".tokens-1", "a.tmp-1-4"}) {
      write_text(folder / name, "half");
    }
    write_text(folder / ".step-3.tmp-1-5/model", "half");
    remove_unfinished(folder.path(), beginnings);
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder.path())) {
      names.insert(entry.path().filename());
    }
    return names;
  };
  EXPECT_EQ(left({""}), (std::set<std::string>{".tokens-1", "a.tmp-1-4"}));
  EXPECT_EQ(
      left({"tokens-", "manifest"}),
      (std::set<std::string>{".photo.png.tmp-1-3", ".step-3.tmp-1-5", ".tokens-1", "a.tmp-1-4"}));
  remove_unfinished(folder / "no such folder");
  const auto others = {".thesis.tmp-backup", ".a.tmp-1-b", ".a.tmp-1", ".a.tmp-1-2.txt",
                       ".tmp-1-2"};
  for (const auto* name : others) write_text(folder / "others" / name / "chapter", "mine");
  remove_unfinished(folder / "others");
  EXPECT_EQ(entries_in(folder / "others"), others.size());
}

TEST(ReplaceFile, ALinkOfTheTemporaryNameIsNotFollowed) {
  TemporaryFolder folder;
  write_text(folder / "mine", "mine");
  fs::create_symlink(folder / "mine", folder / "temporary");
  const std::string text = "new";
  replace_file(folder / "file", folder / "temporary", std::as_bytes(std::span(text)), Sync::no);
  EXPECT_EQ(read_text(folder / "mine"), "mine");
  EXPECT_EQ(read_text(folder / "file"), "new");
  EXPECT_FALSE(fs::is_symlink(folder / "file"));
}

TEST(AppendLine, LinesOfThreadsStayWhole) {
  TemporaryFolder folder;
  std::vector<std::thread> threads;
  for (char letter : {'a', 'b', 'c'}) {
    threads.emplace_back([&, letter] {
      for (int i = 0; i < 50; ++i) append_line(folder / "lines", std::string(1000, letter));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::ifstream file(folder / "lines");
  int count = 0;
  for (std::string line; std::getline(file, line); ++count) {
    EXPECT_EQ(line, std::string(1000, line.empty() ? '?' : line[0]));
  }
  EXPECT_EQ(count, 150);
}

TEST(InputFile, ReadsAnywhere) {
  TemporaryFolder folder;
  write_text(folder / "file", "0123456789");
  const InputFile file(folder / "file");
  EXPECT_EQ(file.size(), 10u);
  std::string part(3, '\0');
  file.read(4, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(part, "456");
  EXPECT_TRUE(
      holds(message_of<UserError>([&] { file.read(8, std::as_writable_bytes(std::span(part))); }),
            "it ends at byte 10"));
  EXPECT_TRUE(holds(message_of<UserError>([&] { InputFile(folder.path()); }), "Is a directory"));
  EXPECT_TRUE(holds(message_of<UserError>([] { InputFile("/dev/null"); }), "not a file"));
}

TEST(AtomicFolder, AppearsWithCommit) {
  TemporaryFolder folder;
  AtomicFolder output(folder / "runs/one/");
  write_text(output.path() / "sub/file", "text");
  EXPECT_FALSE(fs::exists(folder / "runs/one"));
  output.commit();
  EXPECT_EQ(read_text(folder / "runs/one/sub/file"), "text");
  EXPECT_EQ(entries_in(folder / "runs"), 1u);
}

TEST(AtomicFolder, ReplacesAnOlderOne) {
  TemporaryFolder folder;
  write_text(folder / "one/old", "old");
  {
    AtomicFolder output(folder / "one");
    write_text(output.path() / "new", "new");
    output.commit();
  }
  EXPECT_FALSE(fs::exists(folder / "one/old"));
  EXPECT_EQ(read_text(folder / "one/new"), "new");
  EXPECT_EQ(entries_in(folder.path()), 1u);
}

TEST(AtomicFolder, ReplacesAnEmptyOne) {
  TemporaryFolder folder;
  fs::create_directory(folder / "one");
  AtomicFolder output(folder / "one");
  write_text(output.path() / "new", "new");
  output.commit();
  EXPECT_EQ(read_text(folder / "one/new"), "new");
}

TEST(AtomicFolder, VanishesWithoutCommit) {
  TemporaryFolder folder;
  write_text(folder / "one/old", "old");
  {
    AtomicFolder output(folder / "one");
    write_text(output.path() / "new", "new");
  }
  EXPECT_EQ(read_text(folder / "one/old"), "old");
  EXPECT_EQ(entries_in(folder.path()), 1u);
}

TEST(AtomicFolder, DoesNotReplaceAFile) {
  TemporaryFolder folder;
  write_text(folder / "one", "a file");
  {
    AtomicFolder output(folder / "one");
    EXPECT_TRUE(holds(message_of<RunError>([&] { output.commit(); }), "a file has that name"));
  }
  EXPECT_EQ(read_text(folder / "one"), "a file");
  EXPECT_EQ(entries_in(folder.path()), 1u);
}

TEST(AtomicFolder, TakesAFreeNameAlone) {
  TemporaryFolder folder;
  write_text(folder / "one/old", "old");
  write_text(folder / "file", "a file");
  for (const char* name : {"one", "file"}) {
    AtomicFolder output(folder / name);
    write_text(output.path() / "new", "new");
    EXPECT_TRUE(is_unfinished(output.path()));
    EXPECT_TRUE(holds(message_of<UserError>([&] { output.commit_if_free(); }), "choose another"));
  }
  EXPECT_EQ(read_text(folder / "one/old"), "old");
  EXPECT_EQ(entries_in(folder / "one"), 1u);
  EXPECT_EQ(read_text(folder / "file"), "a file");
  fs::create_directory(folder / "empty");
  for (const char* name : {"empty", "new"}) {
    AtomicFolder output(folder / name);
    write_text(output.path() / "new", "new");
    output.commit_if_free();
    EXPECT_EQ(read_text(folder / name / "new"), "new");
    EXPECT_FALSE(is_unfinished(folder / name));
  }
  EXPECT_EQ(entries_in(folder.path()), 4u);
}

TEST(AtomicFolder, CannotBeMadeBelowAFile) {
  TemporaryFolder folder;
  write_text(folder / "file", "text");
  message_of<RunError>([&] { AtomicFolder(folder / "file/below"); });
}

}  // namespace
}  // namespace nsvq
