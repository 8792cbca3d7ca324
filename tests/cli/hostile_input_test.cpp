// Input that is not what its name says, given to the commands.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/data/sources/source.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/tar.h"
#include "nsvq/io/formats/tar_writer.h"
#include "nsvq/io/images/image.h"
#include "nsvq/tokens/token_manifest.h"
#include "tests/cli/model_file.h"
#include "tests/cli/run.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

class HostileInput : public testing::Test {
 protected:
  void SetUp() override {
    write_model_file(model_, tiny_config());
    write_text(recipe_, to_yaml(tiny_config()));
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  Result tokenize(const std::string& data) {
    return run({"tokenize", model_, "--data", path(data), "--out", path("tokens")});
  }
  Result detokenize(const std::string& out) {
    return run({"detokenize", model_, "--tokens", path("tokens"), "--out", path(out)});
  }
  void write_shard(const std::vector<std::string>& names) {
    TarWriter tar(folder_ / "s.tar");
    for (const auto& name : names) tar.add(name, picture_);
    tar.commit();
  }

  TemporaryFolder folder_;
  std::string model_ = path("model.safetensors"), recipe_ = path("tiny.yaml");
  std::vector<std::byte> picture_ =
      encode_png(open_source("builtin:dead-leaves?size=16&count=1")->load(0));
};

TEST_F(HostileInput, APipeAndADeviceInAFolderAreBrokenImages) {
  write_file(folder_ / "photos/a.png", picture_);
  ASSERT_EQ(::mkfifo(path("photos/pipe.jpg").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", folder_ / "photos/zero.jpg");
  const auto result = tokenize("photos");
  ASSERT_EQ(result.code, 0) << result.error;
  expect_contains(result.out, {"1 image", "2 broken"});
  expect_contains(result.error, {"pipe.jpg", "zero.jpg", "not a file"});
  EXPECT_EQ(tokenize("photos/pipe.jpg").code, 2);
}

TEST_F(HostileInput, PipesInARunAreNotWaitedFor) {
  const auto make_pipe = [&](const std::string& name) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    ASSERT_EQ(::mkfifo(path(name).c_str(), 0600), 0);
  };
  make_pipe("runs/a/config.yaml");
  write_text(folder_ / "runs/b/config.yaml", to_yaml(tiny_config()));
  std::filesystem::create_directories(folder_ / "runs/b/checkpoints/step-1");
  std::filesystem::copy(model_, folder_ / "runs/b/checkpoints/step-1/model.safetensors");
  make_pipe("runs/b/checkpoints/step-1/state.json");
  make_pipe("runs/b/metrics.jsonl");
  const auto listed = run({"runs", path("runs")});
  ASSERT_EQ(listed.code, 0) << listed.error;
  expect_contains(listed.out, {"runs/a\n", "runs/b\n", "damaged"});
  expect_contains(listed.error, {"config.yaml: not a file", "state.json: not a file"});
  const auto shown = run({"info", path("runs/b")});
  EXPECT_EQ(shown.code, 0) << shown.error;
  expect_contains(shown.error, {"state.json: not a file", "the model beside it is intact"});
  expect_failure(run({"config", path("runs/a")}), 2, {"config.yaml: not a file"});
  make_pipe("base.yaml");
  write_text(folder_ / "recipe.yaml", "base: base.yaml\nseed: 1\n");
  expect_failure(run({"config", path("recipe.yaml")}), 2, {"base.yaml: not a file"});
}

TEST_F(HostileInput, NamesThatAFolderCannotHoldLeaveNothingBehind) {
  write_shard({"x.png", "x.png/y.png"});
  ASSERT_EQ(tokenize("s.tar").code, 0);
  expect_failure(detokenize("pictures"), 2, {"x.png/y.png", ".tar"});
  EXPECT_FALSE(std::filesystem::exists(path("pictures")));
  EXPECT_EQ(detokenize("pictures.tar").code, 0);
  EXPECT_EQ(TarReader(path("pictures.tar")).entries().size(), 2u);
  expect_failure(
      run({"reconstruct", model_, "--data", path("s.tar"), "--out", path("reconstructed")}), 2,
      {"x.png/y.png"});
  EXPECT_FALSE(std::filesystem::exists(path("reconstructed")));
}

TEST_F(HostileInput, LongNamesAndEqualOnes) {
  write_shard({std::string(300, 'n') + ".png"});
  ASSERT_EQ(tokenize("s.tar").code, 0);
  expect_failure(detokenize("pictures"), 2, {"nnn", "too long"});
  std::filesystem::remove_all(path("tokens"));
  write_shard({"a.png", "a.png", "a.png"});
  ASSERT_EQ(tokenize("s.tar").code, 0);
  ASSERT_EQ(detokenize("pictures").code, 0);
  for (const char* name : {"a.png", "a.png.png", "a.png.2.png"})
    EXPECT_TRUE(std::filesystem::exists(folder_ / "pictures" / name)) << name;
}

TEST_F(HostileInput, NamesThatNoFileCanHaveAreTheUsersError) {
  const auto name = path(std::string(300, 'n')), data = path("photos");
  write_file(folder_ / "photos/a.png", picture_);
  const std::vector<std::vector<std::string>> commands = {
      {"tokenize", model_, "--data", data, "--out", name},
      {"tokenize", name, "--data", data, "--out", path("t")},
      {"tokenize", model_, "--data", name, "--out", path("t")},
      {"encode", model_, "--data", data, "--out", name},
      {"reconstruct", model_, "--data", data, "--out", name},
      {"reconstruct", model_, "--data", data, "--out", name + ".png"},
      {"detokenize", model_, "--tokens", name, "--out", path("p")},
      {"detokenize", model_, "--tokens", path("photos"), "--out", name},
      {"tokens", "verify", name},
      {"info", name},
      {"runs", name},
      {"report", name},
      {"config", name},
      {"train", name},
      {"diffusion", "train", name},
      {"diffusion", "config", name},
      {"diffusion", "sample", name, "--out", path("s")},
      {"diffusion", "eval", name, "--data", data},
      {"diffusion", "export", name, "--out", path("d")},
      {"generate", "train", name},
      {"generate", "config", name},
      {"generate", "sample", name, "--out", path("s")},
      {"generate", "inpaint", name, "--image", name, "--mask", name, "--out", path("i.png")},
      {"generate", "eval", name, "--data", data},
      {"generate", "export", name, "--out", path("d")},
      {"eval", name, "--data", data},
      {"eval", model_, "--data", name},
      {"eval", model_, "--data", data, "--json", name + ".json"},
      {"eval", model_, "--data", data, "--histogram", name + ".csv"},
      {"eval", model_, "--data", data, "--per-image", name + ".csv"},
      {"compare", model_, name, "--data", data},
      {"compare", model_, model_, "--data", data, "--out", name + ".png"},
      {"tokenize", model_, "--data", data, "--classes", name, "--out", path("t")},
      {"bench", "step", name},
      {"bench", "tokenize", name},
      {"watch", name},
      {"weights", "import", name, "--as", "vgg16"},
      {"images", "index", "--data", name},
      {"images", "statistics", "--data", data, "--out", name + ".npz"},
      {"report", data, "--out", name + ".html"},
      {"train", recipe_, "--run", name},
      {"train", recipe_, "data.train=" + name, "--run", path("r")},
      {"export", model_, "--out", name + "/x.safetensors"},
      {"import", name, "--recipe", name, "--out", path("m")},
      {"images", "compare", name, data},
      {"images", "statistics", "--data", name, "--out", path("s.npz")},
      {"reproduce", "table1", "--scale", "test", "--out", name}};
  for (const auto& words : commands) {
    SCOPED_TRACE(words[0] + " " + words[1].substr(0, 12));
    expect_failure(run(words), 2, {"nnn"});
  }
}

TEST_F(HostileInput, OutputThatCannotBeMadeIsTheUsersError) {
  write_file(folder_ / "photos/a.png", picture_);
  ASSERT_EQ(tokenize("photos").code, 0);
  const auto data = path("photos");
  for (const auto& out : {std::string("/proc/none"), path("model.safetensors/x")}) {
    for (const auto* command : {"tokenize", "encode", "reconstruct"}) {
      expect_failure(run({command, model_, "--data", data, "--out", out}), 2, {out});
    }
    const std::vector<std::vector<std::string>> commands = {
        {"detokenize", model_, "--tokens", path("tokens"), "--out", out},
        {"detokenize", model_, "--tokens", path("tokens"), "--out", out + ".tar"},
        {"reconstruct", model_, "--data", data, "--out", out + ".png"},
        {"compare", model_, model_, "--data", data, "--out", out + ".png"},
        {"eval", model_, "--data", data, "--histogram", out + ".csv"},
        {"eval", model_, "--data", data, "--per-image", out + ".csv"},
        {"images", "compare", data, data, "--json", out + ".json"},
        {"images", "statistics", "--data", data, "--out", out + ".npz"},
        {"export", model_, "--out", out + ".safetensors"},
        {"import", model_, "--recipe", "none", "--out", out},
        {"report", data, "--out", out + ".html"},
        {"diffusion", "sample", model_, "--out", out},
        {"diffusion", "export", model_, "--out", out},
        {"generate", "sample", model_, "--out", out},
        {"generate", "inpaint", model_, "--image", data, "--outpaint", "left", "--out", out},
        {"generate", "export", model_, "--out", out},
        {"train", recipe_, "--run", out},
        {"reproduce", "table1", "--scale", "test", "--out", out}};
    for (const auto& words : commands) {
      SCOPED_TRACE(words[0] + " " + words[1]);
      expect_failure(run(words), 2, {});
    }
  }
}

TEST_F(HostileInput, ImagesThatAreReadAreNotReplaced) {
  const auto photos = path("photos"), photo = path("photos/a.png");
  write_file(photo, picture_);
  const std::vector<std::vector<std::string>> commands = {
      {"reconstruct", model_, "--data", photos},
      {"reconstruct", model_, "--data", photos, "--fit", "pad"},
      {"compare", model_, model_, "--data", photos}};
  for (auto words : commands) {
    words.insert(words.end(), {"--out", photo, "--force"});
    expect_failure(run(words), 2, {"--out " + photo, "is among the images of --data"});
  }
  EXPECT_EQ(read_file(photo), picture_);
}

TEST_F(HostileInput, DeepJsonIsOneLine) {
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  write_text(folder_ / "tokens/manifest.json", deep);
  expect_failure(detokenize("pictures"), 2, {"manifest.json", "nested too deep"});
}

}  // namespace
}  // namespace nsvq
