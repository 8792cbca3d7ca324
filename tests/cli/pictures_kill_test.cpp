// Kills real `nsvq detokenize` and `nsvq reconstruct` processes that write pictures to a folder,
// starts them again, and compares with a folder made at once.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/images/image.h"
#include "tests/cli/kill.h"
#include "tests/cli/model_file.h"
#include "tests/cli/run.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

constexpr auto kRecord = ".nsvq-incomplete.json";
constexpr auto kCompleteRecord = ".nsvq-complete.json";

/// Number and bytes of each file but the record of a complete folder: a file that is written again
/// has another number.
struct Written {
  ino_t number;
  std::string bytes;
};

std::map<std::string, Written> written_files(const fs::path& folder) {
  std::map<std::string, Written> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file() || entry.path().filename() == kCompleteRecord) continue;
    struct stat info {};
    EXPECT_EQ(::stat(entry.path().c_str(), &info), 0);
    files[entry.path().lexically_relative(folder)] = {info.st_ino, read_text(entry.path())};
  }
  return files;
}

std::map<std::string, std::string> bytes_in(const fs::path& folder) {
  std::map<std::string, std::string> bytes;
  for (const auto& [name, file] : written_files(folder)) bytes[name] = file.bytes;
  return bytes;
}

class PicturesKill : public testing::Test {
 protected:
  void SetUp() override { write_model_file(model_, tiny_config()); }

  /// False if the command, five times in turn, was finished before the kill came.
  bool kill_after(int pictures, const std::vector<std::string>& command, const fs::path& out) {
    for (int attempt = 0; attempt < 5; ++attempt) {
      fs::remove_all(out);
      int seen = 0;
      const auto kill_at = [&](const std::string& name) {
        return name.ends_with(".png") && ++seen >= pictures;
      };
      run_and_kill(command, (folder_ / "log").string(), folder_.path(), kill_at);
      if (fs::exists(out / kRecord)) return true;
    }
    return false;
  }

  /// Kills the command when it has written `pictures` of them, completes it by the same command,
  /// and compares with `whole`. What was recorded as done is kept, not written again.
  void expect_completed(const std::vector<std::string>& command, const fs::path& out, int pictures,
                        const fs::path& whole) {
    ASSERT_TRUE(kill_after(pictures, command, out));
    const auto record = nlohmann::json::parse(read_text(out / kRecord));
    const int64_t done = record.at("done");
    EXPECT_GT(done, 0);  // recorded after 1,024 pictures at the latest
    const auto before = written_files(out);
    EXPECT_LT(before.size(), bytes_in(whole).size());

    expect_missing_found(command, out, before);

    const auto result = run(command);
    ASSERT_EQ(result.code, 0) << result.error;
    expect_contains(result.error, {fmt::format("going on after the first {}", done)});
    EXPECT_TRUE(bytes_in(out) == bytes_in(whole));
    int64_t kept = 0;
    for (const auto& [name, file] : written_files(out)) {
      kept += before.contains(name) && before.at(name).number == file.number;
    }
    EXPECT_GE(kept, done - std::ssize(record.at("left_out")));
  }

  /// Without a picture that the record counts as done, the folder is not called complete.
  void expect_missing_found(const std::vector<std::string>& command, const fs::path& out,
                            const std::map<std::string, Written>& files) {
    const auto first =
        std::ranges::find_if(files, [](const auto& file) { return file.first.ends_with(".png"); });
    ASSERT_NE(first, files.end());
    fs::rename(out / first->first, folder_ / "aside");
    const auto result = run(command);
    EXPECT_EQ(result.code, 2) << result.error;
    expect_contains(result.error, {first->first + "' is missing", "remove the folder"});
    fs::rename(folder_ / "aside", out / first->first);
  }

  TemporaryFolder folder_;
  std::string model_ = (folder_ / "model.safetensors").string();
};

TEST_F(PicturesKill, DetokenizeIsCompletedByTheSameCommand) {
  const auto tokens = (folder_ / "tokens").string();
  ASSERT_EQ(run({"tokenize", model_, "--data", "builtin:dead-leaves?size=16&count=1700", "--out",
                 tokens, "--shard-size", "300"})
                .code,
            0);
  const auto command = [&](const std::string& out) -> std::vector<std::string> {
    return {"detokenize", model_, "--tokens", tokens, "--out", (folder_ / out).string()};
  };
  ASSERT_EQ(run(command("whole")).code, 0);
  ASSERT_EQ(bytes_in(folder_ / "whole").size(), 1700u);
  expect_completed(command("out"), folder_ / "out", 1200, folder_ / "whole");

  // Other pictures do not get into a folder that was left incomplete.
  ASSERT_TRUE(kill_after(1, command("other"), folder_ / "other"));
  auto jpeg = command("other");
  jpeg.insert(jpeg.end(), {"--format", "jpeg"});
  expect_failure(run(jpeg), 2, {"other", "format png there, jpeg now"});
  EXPECT_EQ(run(command("other")).code, 0);
}

TEST_F(PicturesKill, ReconstructIsCompletedByTheSameCommand) {
  // Two images of one name but for the ending, and broken ones, change the names of later pictures.
  const auto png = encode_png(Image{16, 16, std::vector<uint8_t>(16 * 16 * 3, 77)});
  fs::create_directories(folder_ / "images/b");
  for (int i = 0; i < 1400; ++i) {
    const auto name = fmt::format("images/{}{:04}.png", i < 1300 ? "" : "b/", i);
    std::ofstream file(folder_ / name, std::ios::binary);
    if (i % 100 == 7) continue;
    file.write(reinterpret_cast<const char*>(png.data()), std::ssize(png));
  }
  for (const auto* name : {"images/0003.jpg", "images/0007.jpg"}) {
    fs::copy_file(folder_ / "images/0001.png", folder_ / name);
  }
  const auto command = [&](const std::string& out) -> std::vector<std::string> {
    return {"reconstruct",           model_, "--data", (folder_ / "images").string(), "--out",
            (folder_ / out).string()};
  };
  ASSERT_EQ(run(command("whole")).code, 0);
  const auto whole = bytes_in(folder_ / "whole");
  ASSERT_EQ(whole.size(), 1400u + 2 - 14);
  EXPECT_TRUE(whole.contains("0003.png.png"));
  EXPECT_FALSE(whole.contains("0007.png.png"));
  expect_completed(command("out"), folder_ / "out", 1150, folder_ / "whole");
}

TEST_F(PicturesKill, AnyNumberOfKillsGivesTheSameFolder) {
  const auto command = [&](const fs::path& out) -> std::vector<std::string> {
    return {"reconstruct", model_, "--data", "builtin:dead-leaves?size=24&count=60",
            "--fit",       "crop", "--out",  out.string()};
  };
  const TemporaryFolder folder;
  kill_and_compare(folder.path(), command, [](const fs::path& whole, const fs::path& out) {
    EXPECT_EQ(bytes_in(whole).size(), 60u);
    EXPECT_TRUE(bytes_in(out) == bytes_in(whole));
  });
}

/// A kill after the last file, before the process has ended, leaves a complete folder.
TEST_F(PicturesKill, ACompleteFolderIsSaidToBeOneByTheSameCommand) {
  const auto data = "builtin:dead-leaves?size=16&count=5";
  const auto tokens = (folder_ / "tokens").string();
  ASSERT_EQ(run({"tokenize", model_, "--data", data, "--out", tokens}).code, 0);
  const std::vector<std::vector<std::string>> commands = {
      {"detokenize", model_, "--tokens", tokens},
      {"reconstruct", model_, "--data", data},
      {"reconstruct", model_, "--data", data, "--fit", "crop", "--limit", "2"},
      {"encode", model_, "--data", data, "--shard-size", "2", "--batch-size", "2"}};
  for (size_t i = 0; i < commands.size(); ++i) {
    SCOPED_TRACE(fmt::format("{} {}", i, commands[i][0]));
    auto command = commands[i];
    const auto out = folder_ / fmt::format("out-{}", i);
    command.insert(command.end(), {"--out", out.string()});
    ASSERT_EQ(run(command).code, 0);
    const auto files = written_files(out);
    const auto again = run(command);
    EXPECT_EQ(again.code, 0) << again.error;
    expect_contains(again.error, {out.string() + ": complete already"});
    for (const auto& [name, file] : written_files(out)) {
      ASSERT_TRUE(files.contains(name)) << name;
      EXPECT_EQ(file.number, files.at(name).number) << name;
      EXPECT_EQ(file.bytes, files.at(name).bytes) << name;
    }

    auto other = command;
    other.insert(other.end(), {"--batch-size", "3"});
    if (i == 3) other[7] = "3";
    if (i == 3) other.resize(other.size() - 2);
    expect_failure(run(other), 2,
                   {out.string(), "was made with other settings: batch size", "3 now"});

    const auto first = files.begin()->first;
    fs::rename(out / first, folder_ / "aside");
    expect_failure(run(command), 2, {"'" + first + "' is missing", "remove the folder"});
    fs::rename(folder_ / "aside", out / first);
    fs::remove(out / kCompleteRecord);
    expect_failure(run(command), 2, {out.string(), "not an empty folder"});
    EXPECT_EQ(bytes_in(out).size(), files.size());
  }
}

/// Images 0.png, 1.png, ..., of which some are empty files.
void write_images(const fs::path& folder, int count, const std::set<int>& broken) {
  fs::create_directories(folder);
  const auto png = encode_png(Image{16, 16, std::vector<uint8_t>(16 * 16 * 3, 77)});
  for (int i = 0; i < count; ++i) {
    std::ofstream file(folder / fmt::format("{}.png", i), std::ios::binary);
    if (!broken.contains(i)) {
      file.write(reinterpret_cast<const char*>(png.data()), std::ssize(png));
    }
  }
}

/// A record that leaves out images which can be read does not cost their pictures.
TEST_F(PicturesKill, ImagesThatARecordLeavesOutAreTriedAgain) {
  write_images(folder_ / "images", 7, {3});
  const std::string data = folder_ / "images";
  const std::vector<std::vector<std::string>> commands = {
      {"reconstruct", model_, "--data", data, "--batch-size", "2"},
      {"reconstruct", model_, "--data", data, "--fit", "crop"},
      {"encode", model_, "--data", data, "--shard-size", "2", "--batch-size", "2"}};
  for (size_t i = 0; i < commands.size(); ++i) {
    SCOPED_TRACE(fmt::format("{} {}", i, commands[i][0]));
    auto command = commands[i];
    const auto out = folder_ / fmt::format("out-{}", i);
    command.insert(command.end(), {"--out", out.string()});
    ASSERT_EQ(run(command).code, 0);
    const auto whole = bytes_in(out);
    ASSERT_TRUE(fs::exists(out / kCompleteRecord));
    const auto record = nlohmann::json::parse(read_text(out / kCompleteRecord));
    EXPECT_EQ(record.at("left_out"), nlohmann::json({3}));
    for (const auto* name : {kRecord, kCompleteRecord}) {
      auto forged = record;
      forged["left_out"] = {2, 3, 5};
      if (commands[i][0] == "reconstruct") {
        fs::remove(out / "2.png");
        fs::remove(out / "5.png");
      }
      fs::remove(out / kCompleteRecord);
      std::ofstream(out / name) << forged.dump();
      const auto result = run(command);
      EXPECT_EQ(result.code, 0) << result.error;
      expect_contains(result.error, {"'2.png' was skipped as broken before and can be read now"});
      EXPECT_TRUE(bytes_in(out) == whole) << name;
    }
    EXPECT_EQ(nlohmann::json::parse(read_text(out / kCompleteRecord)), record);
  }
}

TEST_F(PicturesKill, BrokenImagesMayBeTheLastOnes) {
  const auto images = folder_ / "images", out = folder_ / "out";
  write_images(images, 6, {3, 4, 5});
  const std::vector<std::string> command = {"reconstruct",  model_, "--data", images,
                                            "--batch-size", "3",    "--out",  out};
  ASSERT_EQ(run(command).code, 0);
  const auto again = run(command);
  EXPECT_EQ(again.code, 0) << again.error;
  expect_contains(again.error, {"complete already"});
  EXPECT_EQ(bytes_in(out).size(), 3u);
  write_images(images, 6, {});
  EXPECT_EQ(run(command).code, 0);
  EXPECT_EQ(bytes_in(out).size(), 6u);
}

TEST_F(PicturesKill, ALimitHoldsWhereAnImageIsSoundAgain) {
  const auto images = folder_ / "images", out = folder_ / "out";
  write_images(images, 6, {1});
  const std::vector<std::string> command = {"reconstruct", model_,    "--data", images,  "--fit",
                                            "crop",        "--limit", "3",      "--out", out};
  ASSERT_EQ(run(command).code, 0);
  EXPECT_EQ(bytes_in(out).count("3.png"), 1u);
  write_images(images, 6, {});
  ASSERT_EQ(run(command).code, 0);
  const auto pictures = bytes_in(out);
  EXPECT_EQ(pictures.size(), 3u);
  EXPECT_EQ(pictures.count("1.png"), 1u);
}

TEST_F(PicturesKill, FoldersOfOthersAreRefused) {
  const auto data = "builtin:dead-leaves?size=16&count=3";
  const auto out = folder_ / "mine";
  const std::vector<std::string> command = {"reconstruct", model_, "--data", data, "--out", out};
  fs::create_directories(out);
  std::ofstream(out / "notes.txt") << "mine";
  expect_failure(run(command), 2, {"mine", "not an empty folder"});
  EXPECT_EQ(bytes_in(out), (std::map<std::string, std::string>{{"notes.txt", "mine"}}));

  std::ofstream(out / kRecord) << "{}";
  expect_failure(run(command), 2, {kRecord, "damaged"});
  EXPECT_EQ(bytes_in(out).size(), 2u);

  fs::remove_all(out);
  fs::create_directories(out);  // an empty folder is taken
  EXPECT_EQ(run(command).code, 0);
  EXPECT_EQ(bytes_in(out).size(), 3u);
}

}  // namespace
}  // namespace nsvq
