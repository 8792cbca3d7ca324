// Names of the files and folders that commands write.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "nsvq/io/files/file.h"
#include "tests/cli/output_fixture.h"
#include "tests/cli/run.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

class OutputName : public OutputTest {};

TEST_F(OutputName, FoldersOfAFileAreMadeWithIt) {
  const auto missing = folder_ / "missing";
  EXPECT_EQ(run({"eval", "nosuch", "--data", data_, "--json", missing / "deep" / "x.json"}).code,
            2);
  EXPECT_FALSE(fs::exists(missing)) << "by a command that failed";
  for (const auto& [option, name] : {std::pair{"--json", "a/figures.json"},
                                     {"--per-image", "b/figures.csv"},
                                     {"--histogram", "c/use.svg"}}) {
    const auto result = run({"eval", model_, "--data", data_, option, missing / name});
    EXPECT_EQ(result.code, 0) << result.error;
    EXPECT_TRUE(fs::exists(missing / name)) << option;
  }
  ASSERT_EQ(run({"export", model_, "--out", missing / "d/model.safetensors"}).code, 0);
  expect_failure(run({"export", model_, "--out", missing}), 2, {missing, "a folder; name a file"});
}

TEST_F(OutputName, FilesOfAnotherKindAreNotReplaced) {
  const auto photo = (folder_ / "photo.png").string();
  write_text(photo, "\x89PNG, as it were");
  const std::vector<std::vector<std::string>> commands = {
      {"eval", model_, "--data", data_, "--json", photo},
      {"eval", model_, "--data", data_, "--per-image", photo},
      {"info", model_, "--json", photo},
      {"doctor", "--json", photo}};
  for (const auto& words : commands) {
    expect_failure(run(words), 2, {words[words.size() - 2], photo, "exists and is not"});
  }
  EXPECT_EQ(read_text(photo), "\x89PNG, as it were");
  const auto again = (folder_ / "again").string();  // whatever its name
  write_text(again, "");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(run({"info", model_, "--json", again}).code, 0) << i;
  const auto csv = (folder_ / "figures.csv").string();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(run({"eval", model_, "--data", data_, "--per-image", csv}).code, 0) << i;
  }
}

TEST_F(OutputName, FilesOfAnotherKindAreNotReplacedByResults) {
  const auto foreign = [&](const char* name) {
    write_text(folder_ / name, "notes of mine");
    return (folder_ / name).string();
  };
  write_text(folder_ / "run/config.yaml", to_yaml(tiny_config()));
  const std::vector<std::vector<std::string>> commands = {
      {"eval", model_, "--data", data_, "--histogram", foreign("use.svg")},
      {"export", model_, "--out", foreign("a.safetensors")},
      {"report", folder_ / "run", "--out", foreign("notes.txt")},
      {"statistics", "--data", data_, "--out", foreign("s.npz")},
      {"codebook", "kmeans", model_, "--data", data_, "--out", foreign("codes.safetensors")},
      {"codebook", "features", "--data", data_, "--codes", "4", "--out",
       foreign("features.safetensors")},
      {"compare", model_, model_, "--data", data_, "--out", foreign("compared.png")},
      {"reconstruct", model_, "--data", data_, "--out", foreign("grid.jpg")}};
  for (const auto& words : commands) {
    SCOPED_TRACE(words[0]);
    expect_failure(run(words), 2, {words[words.size() - 2], words.back(), "exists and is not"});
    EXPECT_EQ(read_text(words.back()), "notes of mine");
  }
  const auto beside = foreign("b.json");
  expect_failure(run({"export", model_, "--out", folder_ / "b.safetensors"}), 2, {beside});
  EXPECT_FALSE(fs::exists(folder_ / "b.safetensors"));
}

TEST_F(OutputName, ResultsReplaceThoseOfBefore) {
  write_text(folder_ / "run/config.yaml", to_yaml(tiny_config()));
  const std::vector<std::vector<std::string>> commands = {
      {"eval", model_, "--data", data_, "--histogram", folder_ / "use.svg"},
      {"export", model_, "--out", folder_ / "a.safetensors"},
      {"codebook", "kmeans", model_, "--data", data_, "--codes", "4", "--out",
       folder_ / "codes.safetensors"},
      {"compare", model_, model_, "--data", data_, "--out", folder_ / "compared.png"},
      {"reconstruct", model_, "--data", data_, "--out", folder_ / "grid.jpg"}};
  for (const auto& words : commands) {
    for (int i = 0; i < 2; ++i) {
      const auto result = run(words);
      EXPECT_EQ(result.code, 0) << words[0] << ": " << result.error;
    }
  }
}

TEST_F(OutputName, FoldersAreNotNamedLikeFiles) {
  const auto out = (folder_ / "rec.webp").string();
  expect_failure(run({"reconstruct", model_, "--data", data_, "--out", out}), 2,
                 {out, ".webp", "FILE.png"});
  expect_failure(run({"tokenize", model_, "--data", data_, "--out", out}), 2, {".webp", "folder"});
  expect_failure(run({"detokenize", model_, "--tokens", "t", "--out", out}), 2,
                 {".webp", "FILE.tar"});
  EXPECT_FALSE(fs::exists(out));
  EXPECT_EQ(run({"reconstruct", model_, "--data", data_, "--out", out + "/"}).code, 0);
  EXPECT_TRUE(fs::is_directory(out));
  for (const auto* name : {"rate-0.5", "tok.v2", "2024.11.16", "a.first.try", "images.final"}) {
    const auto made = run({"tokenize", model_, "--data", data_, "--out", folder_ / name});
    EXPECT_EQ(made.code, 0) << made.error;
    EXPECT_TRUE(fs::is_directory(folder_ / name));
  }
  for (const auto* name : {"x.zip", "x.tar.gz", "x.NPY", "x.v2.json"}) {
    expect_failure(run({"tokenize", model_, "--data", data_, "--out", folder_ / name}), 2,
                   {name, "files are not written here; name a folder (", "/ is one)"});
  }
}

TEST_F(OutputName, NoFolderIsCalledLikeStandardOutput) {
  const auto before = fs::current_path();
  fs::current_path(folder_.path());
  for (const auto* command : {"reconstruct", "tokenize", "latents"}) {
    expect_failure(run({command, model_, "--data", data_, "--out", "-"}), 2, {"--out -", "folder"});
  }
  expect_failure(run({"detokenize", model_, "--tokens", "t", "--out", "-"}), 2,
                 {"--out -", "FILE.tar or a folder"});
  EXPECT_FALSE(fs::exists("-"));
  fs::create_directory("-");
  write_text("runs/a/config.yaml", to_yaml(tiny_config()));
  const auto listed = run({"runs", "--json", "-"});
  EXPECT_EQ(nlohmann::json::parse(listed.out).size(), 1u) << "of runs, not of the folder called -";
  fs::current_path(before);
}

TEST_F(OutputName, TwoOutputsAreNotOneFile) {
  const auto x = (folder_ / "x").string(), svg = (folder_ / "x.svg").string();
  const auto weights = (folder_ / "x.safetensors").string();
  const auto png = (folder_ / "x.png").string(), again = (folder_ / "." / "x.png").string();
  const std::vector<std::vector<std::string>> commands = {
      {"codebook", "kmeans", model_, "--data", data_, "--codes", "4", "--out", weights, "--json",
       weights},
      {"compare", model_, model_, "--data", data_, "--out", png, "--json", again},
      {"eval", model_, "--data", data_, "--json", x, "--per-image", x},
      {"eval", model_, "--data", data_, "--json", svg, "--histogram", svg}};
  for (const auto& command : commands) {
    SCOPED_TRACE(command[0]);
    expect_failure(run(command), 2, {"--json", "both name"});
  }
  ASSERT_EQ(run({"reconstruct", model_, "--data", data_, "--out", png}).code, 0);
  const auto picture = read_text(png);
  fs::create_symlink(png, folder_ / "link.png");
  for (const auto& name : {png, again, (folder_ / "link.png").string()}) {
    expect_failure(run({"reconstruct", model_, "--data", png, "--out", name}), 2,
                   {"--data", "--out", "both name"});
  }
  EXPECT_EQ(read_text(png), picture);
  const auto nowhere =
      run({"eval", model_, "--data", data_, "--json", "/dev/null", "--per-image", "/dev/null"});
  EXPECT_EQ(nowhere.code, 0) << nowhere.error;
}

TEST_F(OutputName, NoInputIsReplaced) {
  const auto photos = folder_ / "photos", photo = photos / "deep/a.png";
  ASSERT_EQ(run({"reconstruct", model_, "--data", data_, "--out", folder_ / "grid.png"}).code, 0);
  fs::create_directories(photos / "deep");
  for (const auto* name : {"deep/a.png", "b.png"}) {
    fs::copy_file(folder_ / "grid.png", photos / name);
  }
  fs::create_directory_symlink(photos / "deep", folder_ / "link");
  fs::create_symlink(folder_ / "grid.png", photos / "c.png");
  const auto before = read_text(photo);
  for (const auto& out : {photo, folder_ / "link/a.png", folder_ / "grid.png"}) {
    const std::vector<std::vector<std::string>> commands = {
        {"reconstruct", model_, "--data", data_, photos, "--out", out},
        {"reconstruct", model_, "--data", photos, "--fit", "crop", "--out", out},
        {"compare", model_, model_, "--data", photos, "--out", out}};
    for (const auto& command : commands) {
      expect_failure(run(command), 2, {"--out " + out.string(), "one of the images of --data"});
    }
  }
  expect_failure(
      run({"reconstruct", model_, "--data", photos / "*.png", "--out", photos / "b.png"}), 2,
      {"one of the images of --data"});
  EXPECT_TRUE(read_text(photo) == before);
  const auto fresh = run({"reconstruct", model_, "--data", photos, "--out", photos / "new.png"});
  EXPECT_EQ(fresh.code, 0) << fresh.error;

  const auto weights = read_text(model_);
  fs::create_symlink(model_, folder_ / "link.safetensors");
  for (const std::string& out : {model_, (folder_ / "link.safetensors").string()}) {
    expect_failure(run({"export", model_, "--out", out}), 2, {"--out", "both name"});
    expect_failure(
        run({"codebook", "kmeans", model_, "--data", data_, "--codes", "4", "--out", out}), 2,
        {"--out", "is not a codebook"});
    write_text(folder_ / "tiny.yaml", to_yaml(tiny_config()));
    expect_failure(run({"import", model_, "--like", folder_ / "tiny.yaml", "--out", out}), 2,
                   {"--out", "both name"});
  }
  expect_failure(run({"import", model_, "--like", folder_ / "tiny.yaml", "--out", folder_.path()}),
                 2, {"--out", "both name"});
  EXPECT_TRUE(read_text(model_) == weights);
  EXPECT_FALSE(fs::exists(folder_ / "model.json"));
}

TEST_F(OutputName, NothingIsWrittenAmongCheckpoints) {
  const auto checkpoint = folder_ / "run/checkpoints/step-3";
  write_text(folder_ / "run/config.yaml", "seed: 1\n");
  write_text(checkpoint / "state.json", "{}");
  fs::copy_file(model_, checkpoint / "model.safetensors");
  const std::vector<std::vector<std::string>> commands = {
      {"info", model_, "--json", checkpoint / "state.json"},
      {"eval", model_, "--data", data_, "--json", checkpoint / "state.json"},
      {"codebook", "kmeans", model_, "--data", data_, "--codes", "4", "--out",
       checkpoint / "model.safetensors"}};
  for (const auto& command : commands) {
    expect_failure(run(command), 2, {command.back(), "checkpoints of the run"});
  }
  for (const char* command : {"reconstruct", "tokenize", "latents"}) {
    const auto out = (folder_ / "run/checkpoints/step-4").string();
    expect_failure(run({command, model_, "--data", data_, "--out", out}), 2,
                   {out, "checkpoints of the run"});
    EXPECT_FALSE(fs::exists(out)) << command;
  }
  fs::create_symlink(checkpoint / "state.json", folder_ / "link.json");
  expect_failure(run({"info", model_, "--json", folder_ / "link.json"}), 2,
                 {"link.json", "checkpoints of the run"});
  EXPECT_EQ(read_text(checkpoint / "state.json"), "{}");
  EXPECT_TRUE(read_text(checkpoint / "model.safetensors") == read_text(model_));
}

TEST_F(OutputName, AModelIsNotReplacedByACodebookNorAShardByAModel) {
  fs::copy_file(model_, folder_ / "other.safetensors");
  expect_failure(run({"codebook", "kmeans", model_, "--data", data_, "--codes", "4", "--out",
                      folder_ / "other.safetensors"}),
                 2, {"other.safetensors", "exists and is not a codebook"});
  ASSERT_EQ(run({"tokenize", model_, "--data", data_, "--out", folder_ / "tokens"}).code, 0);
  ASSERT_EQ(run({"latents", model_, "--data", data_, "--out", folder_ / "latents"}).code, 0);
  for (const char* shard :
       {"tokens/tokens-00000.safetensors", "latents/latents-00000.safetensors"}) {
    const auto bytes = read_text(folder_ / shard);
    expect_failure(run({"export", model_, "--out", folder_ / shard}), 2,
                   {shard, "exists and is not a model's weights"});
    EXPECT_TRUE(read_text(folder_ / shard) == bytes);
  }
}

TEST_F(OutputName, ATarReplacesATarButNotTheImagesOfItsTokens) {
  const auto tokens = (folder_ / "tokens").string(), made = (folder_ / "made.tar").string();
  ASSERT_EQ(run({"tokenize", model_, "--data", data_, "--out", tokens}).code, 0);
  const auto detokenize = [&](const std::string& from, const std::string& out) {
    return run({"detokenize", model_, "--tokens", from, "--out", out});
  };
  for (int i = 0; i < 2; ++i) EXPECT_EQ(detokenize(tokens, made).code, 0);
  write_text(folder_ / "notes.tar", "notes of mine");
  expect_failure(detokenize(tokens, folder_ / "notes.tar"), 2, {"exists and is not a tar archive"});
  EXPECT_EQ(read_text(folder_ / "notes.tar"), "notes of mine");
  fs::create_directories(folder_ / "folder.tar");
  expect_failure(detokenize(tokens, folder_ / "folder.tar"), 2, {"folder.tar", "a folder"});

  const auto again = (folder_ / "again").string();
  ASSERT_EQ(run({"tokenize", model_, "--data", made, "--out", again}).code, 0);
  const auto bytes = read_text(made);
  expect_failure(detokenize(again, made), 2, {"the images of --tokens", made});
  EXPECT_TRUE(read_text(made) == bytes);
}

TEST_F(OutputName, APageIsAFile) {
  write_text(folder_ / "run/config.yaml", to_yaml(tiny_config()));
  expect_failure(run({"report", folder_ / "run", "--out", "-"}), 2, {"--out -", "name it"});
}

TEST_F(OutputName, CheckpointsOfOtherProgramsAreAFolderLikeAny) {
  write_text(folder_ / "project/config.yaml", "lr: 1\n");
  const auto checkpoints = folder_ / "project/checkpoints";
  fs::create_directories(checkpoints);
  EXPECT_EQ(run({"export", model_, "--out", checkpoints / "vq.safetensors"}).code, 0);
  EXPECT_EQ(run({"info", model_, "--json", checkpoints / "info.json"}).code, 0);
}

TEST_F(OutputName, ManifestsAreNotReplacedByFigures) {
  const auto tokens = folder_ / "tokens", latents = folder_ / "latents",
             pictures = folder_ / "pictures";
  ASSERT_EQ(run({"tokenize", model_, "--data", data_, "--out", tokens}).code, 0);
  ASSERT_EQ(run({"latents", model_, "--data", data_, "--out", latents}).code, 0);
  ASSERT_EQ(run({"reconstruct", model_, "--data", data_, "--out", pictures}).code, 0);
  for (const auto& file :
       {tokens / "manifest.json", latents / "manifest.json", pictures / ".nsvq-complete.json"}) {
    ASSERT_TRUE(fs::exists(file)) << file;
    const auto before = read_text(file);
    expect_failure(run({"info", model_, "--json", file}), 2, {file, "is not JSON of figures"});
    EXPECT_EQ(read_text(file), before);
  }
}

TEST_F(OutputName, ExportReplacesItsOwnFilesOnly) {
  const auto out = (folder_ / "package.safetensors").string();
  write_text(folder_ / "package.json", R"({"name": "web-page", "nsvq": "0.1"})");
  expect_failure(run({"export", model_, "--out", out}), 2, {"package.json", "exported model"});
  EXPECT_FALSE(fs::exists(out));
  fs::remove(folder_ / "package.json");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(run({"export", model_, "--out", out}).code, 0) << i;

  const auto checkpoint = folder_ / "run" / "checkpoints" / "step-3";
  write_text(folder_ / "run" / "config.yaml", "seed: 1\n");
  fs::create_directories(checkpoint);
  fs::copy_file(model_, checkpoint / "model.safetensors");
  fs::create_directory_symlink(checkpoint, folder_ / "link");
  for (const auto& folder : {checkpoint, checkpoint.parent_path(), folder_ / "link"}) {
    expect_failure(run({"export", model_, "--out", folder / "model.safetensors"}), 2,
                   {"--out", "checkpoints of the run"});
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(checkpoint), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace nsvq
