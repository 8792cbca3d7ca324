// The rule for files and folders that commands write.
#include "nsvq/cli/arguments/output_name.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "nsvq/core/error.h"
#include "nsvq/io/files/file.h"
#include "tests/cli/output_fixture.h"
#include "tests/cli/run.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

std::string refusal(const std::vector<NamedFile>& outputs, bool force = false,
                    const std::vector<NamedFile>& inputs = {}) {
  try {
    check_output_files(outputs, force, inputs);
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

TEST(OutputFiles, WhatExistsIsRefusedWithoutForce) {
  const TemporaryFolder folder;
  const std::string photo = folder / "photo.png", empty = folder / "empty";
  write_text(photo, "mine");
  write_text(empty, "");
  expect_contains(refusal({{"--out", photo}}), {"--out " + photo, "exists", "--force"});
  expect_contains(refusal({{"--out", ""}, {"--json", photo}}), {"--json " + photo});
  EXPECT_EQ(refusal({{"--out", photo}}, /*force=*/true), "");
  EXPECT_EQ(refusal({{"--out", empty}}), "") << "nothing is lost";
  EXPECT_EQ(refusal({{"--out", "/dev/null"}, {"--json", "/dev/null"}}), "");
  expect_contains(refusal({{"--out", folder.path()}}, true), {"a folder; name a file"});
  expect_contains(refusal({{"--out", "-"}}, true), {"--out -", "name a file"});
  EXPECT_EQ(read_text(photo), "mine");
}

TEST(OutputFiles, ForceReplacesNothingThatTheOptionDoesNotWrite) {
  const TemporaryFolder folder;
  const std::string model = folder / "model.safetensors", record = folder / "manifest.json";
  write_text(model, "weights");
  write_text(record, "{}");
  expect_contains(refusal({{"--json", model, ".json"}}, true), {"does not end in .json"});
  expect_contains(refusal({{"--json", record, ".json"}}, true), {"belongs to a run"});
  EXPECT_EQ(read_text(model), "weights");
}

TEST(OutputFiles, ForceReplacesNoImageThatIsRead) {
  const TemporaryFolder folder;
  const std::string photos = folder / "photos", photo = folder / "photos/below/a.png";
  write_text(photo, "mine");
  write_text(folder / "photos/figures.json", "{}");
  const auto list = photo + "," + photo;
  for (const auto& input : {photos, photos + "/", photo, list, photos + "/below/?.png"}) {
    expect_contains(refusal({{"--out", photo}}, true, {{"--data", input}}), {"--data"});
  }
  const std::string link = folder / "photos/link.png", other = folder / "other";
  write_text(folder / "mine.png", "mine");
  fs::create_symlink(folder / "mine.png", link);
  fs::create_directory_symlink(photos, other);
  for (const auto& name : {link, other + "/below/a.png", photos + "/below/../link.png"}) {
    expect_contains(refusal({{"--out", name}}, true, {{"--data", photos}}), {"--data"});
  }
  expect_contains(refusal({{"--out", photo}}, true, {{"--data", other}}), {"--data"});
  EXPECT_EQ(refusal({{"--out", folder / "mine.png"}}, true, {{"--data", other + "/below"}}), "");
  EXPECT_EQ(refusal({{"--out", photos + "/grid.png"}}, true, {{"--data", photos}}), "") << "new";
  EXPECT_EQ(refusal({{"--json", photos + "/figures.json"}}, true, {{"--data", photos}}), "");
  EXPECT_EQ(refusal({{"--out", photo}}, true, {{"--data", "builtin:dead-leaves"}}), "");
  EXPECT_EQ(refusal({{"--out", photo}}, true, {{"--data", folder / "elsewhere"}}), "");
}

TEST(OutputFiles, NoTwoNamesAreOneFile) {
  const TemporaryFolder folder;
  const std::string file = folder / "a", again = folder / "." / "a", link = folder / "link";
  expect_contains(refusal({{"--out", file}, {"--json", again}}), {"--out and --json: both name"});
  write_text(file, "mine");
  fs::create_symlink(file, link);
  for (const auto& name : {file, again, link}) {
    expect_contains(refusal({{"--out", name}}, true, {{"MODEL", file}}), {"MODEL and --out"});
  }
  EXPECT_EQ(read_text(file), "mine");
}

TEST(OutputFiles, FoldersOfAFileAreProbedAndNotLeftBehind) {
  const TemporaryFolder folder;
  EXPECT_EQ(refusal({{"--out", folder / "a/b/c.json"}}), "");
  EXPECT_FALSE(fs::exists(folder / "a"));
  write_text(folder / "file", "mine");
  expect_contains(refusal({{"--out", folder / "file/x/c.json"}}), {"file is not a folder"});
  expect_contains(refusal({{"--out", "/proc/none"}}), {"--out: cannot write /proc/none: "});
  expect_contains(refusal({{"--out", "/proc/none/x"}}), {"--out: cannot create folder /proc/none"});
  const auto name = std::string(300, 'n');
  expect_contains(refusal({{"--out", folder / name}}), {name + ": File name too long"});
  expect_contains(refusal({{"--out", folder / name / "x.json"}}), {"File name too long"});
}

TEST(OutputFolder, IsNoFileNorStandardOutput) {
  const TemporaryFolder folder;
  write_text(folder / "file", "mine");
  EXPECT_THROW(check_output_folder(folder / "file"), UserError);
  EXPECT_THROW(check_output_folder(folder / "file/below"), UserError);
  EXPECT_THROW(check_output_folder("-"), UserError);
  EXPECT_THROW(check_output_folder("/proc/none"), UserError);
  EXPECT_THROW(check_output_folder(folder / std::string(300, 'n')), UserError);
  EXPECT_THROW(check_output_folder(folder / "new" / std::string(300, 'n')), UserError);
  for (const auto* name : {"new", "deep/new/", "rate-0.5", "x.zip"}) {
    check_output_folder(folder / name);
    EXPECT_FALSE(fs::exists(folder / name));
  }
}

class OutputName : public OutputTest {};

TEST_F(OutputName, EveryCommandKeepsToTheRule) {
  const auto out = (folder_ / "mine").string();
  write_text(folder_ / "run/config.yaml", to_yaml(tiny_config()));
  write_text(folder_ / "tiny.yaml", to_yaml(tiny_config()));
  const auto with = [&](std::vector<std::string> words, const std::string& ending) {
    write_text(out + ending, "notes of mine");
    words.push_back(out + ending);
    expect_failure(run(words), 2, {words[words.size() - 2], words.back(), "exists", "--force"});
    EXPECT_EQ(read_text(out + ending), "notes of mine") << words[0];
  };
  for (const std::string option : {"--json", "--per-image", "--histogram"}) {
    with({"eval", model_, "--data", data_, option}, ".csv");
  }
  with({"info", model_, "--json"}, ".json");
  with({"doctor", "--json"}, ".json");
  with({"runs", folder_.path(), "--json"}, ".json");
  with({"export", model_, "--out"}, ".safetensors");
  with({"import", model_, "--recipe", folder_ / "tiny.yaml", "--out"}, ".safetensors");
  with({"report", folder_ / "run", "--out"}, ".html");
  with({"images", "statistics", "--data", data_, "--out"}, ".npz");
  with({"images", "compare", data_, data_, "--json"}, ".json");
  with({"codebook", "kmeans", model_, "--data", data_, "--out"}, ".safetensors");
  with({"codebook", "features", "--data", data_, "--codes", "4", "--out"}, ".safetensors");
  with({"compare", model_, model_, "--data", data_, "--out"}, ".png");
  with({"reconstruct", model_, "--data", data_, "--out"}, ".jpg");
  with({"detokenize", model_, "--tokens", "t", "--out"}, ".tar");

  write_text(folder_ / "new.json", "notes of mine");  // what export would write beside its --out
  expect_failure(run({"export", model_, "--out", folder_ / "new.safetensors"}), 2, {"new.json"});
  fs::rename(folder_ / "new.json", folder_ / "load_new.py");
  expect_failure(run({"export", model_, "--out", folder_ / "new.safetensors"}), 2, {"load_new.py"});
  EXPECT_FALSE(fs::exists(folder_ / "new.safetensors"));
}

TEST_F(OutputName, ForceReplacesFilesButNoInput) {
  const auto grid = (folder_ / "grid.png").string(), csv = (folder_ / "use.csv").string();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(run({"reconstruct", model_, "--data", data_, "--force", "--out", grid}).code, 0);
    EXPECT_EQ(run({"eval", model_, "--data", data_, "--force", "--histogram", csv, "--per-image",
                   folder_ / "images.csv", "--json", folder_ / "deep/figures.json"})
                  .code,
              0);
  }
  expect_contains(read_text(csv), {"code,count\n0,"});
  expect_failure(run({"eval", model_, "--data", data_, "--histogram", "use.svg"}), 2,
                 {"use.svg", "FILE.csv"});
  const auto weights = read_text(model_), picture = read_text(grid);
  expect_failure(run({"export", model_, "--force", "--out", model_}), 2, {"both name"});
  expect_failure(run({"reconstruct", model_, "--data", grid, "--force", "--out", grid}), 2,
                 {"--data and --out: both name"});
  EXPECT_TRUE(read_text(model_) == weights && read_text(grid) == picture);
}

TEST_F(OutputName, PhotosAreNotMixedWithOutput) {
  const auto photos = folder_ / "photos";
  ASSERT_EQ(run({"reconstruct", model_, "--data", data_, "--out", photos / "a.png"}).code, 0);
  ASSERT_EQ(run({"tokenize", model_, "--data", data_, "--out", folder_ / "tokens"}).code, 0);
  const std::vector<std::vector<std::string>> commands = {
      {"reconstruct", model_, "--data", photos},
      {"tokenize", model_, "--data", photos},
      {"encode", model_, "--data", photos},
      {"detokenize", model_, "--tokens", folder_ / "tokens"}};
  for (auto words : commands) {
    words.insert(words.end(), {"--out", photos});
    expect_failure(run(words), 2, {photos});
    EXPECT_EQ(std::distance(fs::directory_iterator(photos), {}), 1) << words[0];
  }
}

TEST_F(OutputName, TheImagesOfTokensAreNoTarToReplace) {
  const std::string made = folder_ / "made.tar";
  ASSERT_EQ(run({"tokenize", model_, "--data", data_, "--out", folder_ / "first"}).code, 0);
  ASSERT_EQ(run({"detokenize", model_, "--tokens", folder_ / "first", "--out", made}).code, 0);
  ASSERT_EQ(run({"tokenize", model_, "--data", made, "--out", folder_ / "again"}).code, 0);
  expect_failure(
      run({"detokenize", model_, "--tokens", folder_ / "again", "--force", "--out", made}), 2,
      {"the images of --tokens", made});
  const std::string any = folder_ / "m?de.tar";
  ASSERT_EQ(run({"tokenize", model_, "--data", any, "--out", folder_ / "third"}).code, 0);
  expect_failure(
      run({"detokenize", model_, "--tokens", folder_ / "third", "--force", "--out", made}), 2,
      {"the images of --tokens", made});
}

}  // namespace
}  // namespace nsvq
