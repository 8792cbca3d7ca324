#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/data/images/transform.h"
#include "nsvq/data/sources/source.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/tar.h"
#include "nsvq/io/images/image.h"
#include "nsvq/tokenizer/open_model.h"
#include "nsvq/tokens/token_manifest.h"
#include "nsvq/tokens/token_shard.h"
#include "tests/cli/model_file.h"
#include "tests/cli/run.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

/// The bytes of every file of a folder but the record of a complete one.
std::map<std::string, std::vector<std::byte>> contents_of(const fs::path& folder) {
  std::map<std::string, std::vector<std::byte>> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const auto name = entry.path().lexically_relative(folder).string();
    if (entry.is_regular_file()) files[name] = read_file(entry.path());
  }
  files.erase(".nsvq-complete.json");
  return files;
}

class Tokens : public testing::Test {
 protected:
  void SetUp() override {
    auto config = tiny_config();
    config.train.precision = "fp32";  // so that tokens are the same on a GPU, but for near ties
    write_model_file(model_, config);
  }

  Result tokenize(const std::string& out, std::vector<std::string> more = {},
                  const std::string& data = "builtin:dead-leaves?size=20&count=23") {
    std::vector<std::string> words = {"tokenize", model_,  "--data",
                                      data,       "--out", (folder_ / out).string()};
    words.insert(words.end(), more.begin(), more.end());
    if (std::find(more.begin(), more.end(), "--shard-size") == more.end()) {
      words.insert(words.end(), {"--shard-size", "8"});
    }
    return run(words);
  }
  Result detokenize(const std::string& tokens, const std::string& out,
                    std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"detokenize", model_,
                                      "--tokens",   (folder_ / tokens).string(),
                                      "--out",      (folder_ / out).string()};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  TokenShard shard(const std::string& out, int number) {
    return read_token_shard(folder_ / out / token_shard_name(number), 32);
  }

  TemporaryFolder folder_;
  std::string model_ = (folder_ / "model.safetensors").string();
};

TEST_F(Tokens, ShardsHoldWhatTheModelGives) {
  ASSERT_EQ(tokenize("t").code, 0);
  const auto manifest = read_token_manifest(folder_ / "t");
  EXPECT_TRUE(manifest.complete);
  ASSERT_EQ(manifest.shards.size(), 3u);
  EXPECT_EQ(manifest.shards[2].images, 7);
  EXPECT_EQ(manifest.settings.grid_height, 8);

  auto loaded = load_model(model_);
  const auto source = open_source("builtin:dead-leaves?size=20&count=23");
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 23; ++i) {
    auto image = at::empty({1, 3, 16, 16});
    transform(source->load(i), {.size = 16}, 0, {image.data_ptr<float>(), 3 * 16 * 16});
    const auto expected = loaded.tokenizer->encode(image)[0];
    const auto part = shard("t", static_cast<int>(i / 8));
    EXPECT_EQ(part.keys[i % 8], source->key(i));
    EXPECT_EQ(part.classes[i % 8], -1);
    EXPECT_GT(part.tokens[i % 8].eq(expected).sum().item<int64_t>(), 62) << i;
    for (int64_t k = 0; k < 64; ++k) seen.insert(expected.flatten()[k].item<int64_t>());
  }
  EXPECT_GT(seen.size(), 3u) << "one token everywhere would prove nothing";
}

TEST_F(Tokens, ResumesFromDamageToTheSameBytes) {
  ASSERT_EQ(tokenize("whole").code, 0);
  const auto expected = contents_of(folder_ / "whole");
  ASSERT_EQ(expected.size(), 4u);
  ASSERT_EQ(tokenize("t").code, 0);
  EXPECT_EQ(contents_of(folder_ / "t"), expected);

  write_text(folder_ / "t" / token_shard_name(1), "damaged");
  write_text(folder_ / "t" / ".tokens-00001.safetensors.tmp-1-2", "left by a killed process");
  fs::remove(folder_ / "t" / token_shard_name(2));
  const auto first = fs::last_write_time(folder_ / "t" / token_shard_name(0));
  const auto again = tokenize("t");
  ASSERT_EQ(again.code, 0) << again.error;
  expect_contains(again.error, {token_shard_name(1), token_shard_name(2), "writing it again"});
  EXPECT_EQ(contents_of(folder_ / "t"), expected);
  EXPECT_EQ(fs::last_write_time(folder_ / "t" / token_shard_name(0)), first);

  const auto complete = tokenize("t");
  ASSERT_EQ(complete.code, 0) << complete.error;
  expect_contains(complete.error, {" images: complete already, nothing to do"});
  EXPECT_EQ(complete.error.find("images/s"), std::string::npos) << complete.error;
}

TEST_F(Tokens, FoldersOfOtherTokensAreRefused) {
  ASSERT_EQ(tokenize("t").code, 0);
  const auto expected = contents_of(folder_ / "t");
  expect_failure(tokenize("t", {"--limit", "9"}), 2, {"number of images", "9 here, 23 there"});
  expect_failure(tokenize("t", {"--crop", "16x24"}), 2, {"image size", "16x24 here"});
  expect_failure(tokenize("t", {"--batch-size", "4"}), 2, {"batch size"});
  expect_failure(tokenize("t", {}, "builtin:dead-leaves?size=20&count=22"), 2, {"--out"});
  write_model_file(model_, tiny_config(), 1);
  expect_failure(tokenize("t"), 2, {"model", "here"});
  EXPECT_EQ(contents_of(folder_ / "t"), expected);

  write_text(folder_ / "other" / "notes.txt", "mine");
  expect_failure(tokenize("other"), 2, {"other files", "--out"});
  write_text(folder_ / "file", "");
  expect_failure(tokenize("file"), 2, {"file"});
}

TEST_F(Tokens, CropsLimitsAndBatches) {
  ASSERT_EQ(tokenize("t", {"--crop", "24x16", "--limit", "10", "--batch-size", "3"}).code, 0);
  const auto manifest = read_token_manifest(folder_ / "t");
  EXPECT_EQ(manifest.settings.shard_size, 9);  // whole batches
  ASSERT_EQ(manifest.shards.size(), 2u);
  EXPECT_EQ(shard("t", 0).tokens.sizes(), (std::vector<int64_t>{9, 12, 8}));
  EXPECT_EQ(shard("t", 1).tokens.sizes(), (std::vector<int64_t>{1, 12, 8}));
  // Without --batch-size a batch is at most a shard; of the model it is 8.
  for (const auto& [asked, shards] : {std::pair{3, 3}, {9, 16}}) {
    const auto name = fmt::format("t{}", asked);
    ASSERT_EQ(tokenize(name, {"--shard-size", fmt::to_string(asked)}).code, 0);
    EXPECT_EQ(read_token_manifest(folder_ / name).settings.shard_size, shards);
    EXPECT_EQ(shard(name, 0).tokens.size(0), shards);
  }
  ASSERT_EQ(detokenize("t", "pictures").code, 0);
  const auto picture = read_image(folder_ / "pictures" / "dead-leaves" / "000009.png");
  EXPECT_EQ(picture.height, 24);
  EXPECT_EQ(picture.width, 16);
  expect_failure(tokenize("u", {"--crop", "17x16"}), 2, {"17x16", "stride", "2"});
  for (const auto* wrong : {"x16", "16x", "a", "0x8", "16x16x16", "-8x8", ""}) {
    const auto result = tokenize("u", {"--crop", wrong});
    if (*wrong) expect_failure(result, 2, {"--crop"});
  }
}

TEST_F(Tokens, AShardIsASixteenthOfTheImagesAtMost) {
  const auto shard_size = [&](const std::string& out, int images, std::vector<std::string> more) {
    std::vector<std::string> words = {
        "tokenize",    model_,   "--out",
        folder_ / out, "--data", fmt::format("builtin:dead-leaves?size=16&count={}", images)};
    words.insert(words.end(), more.begin(), more.end());
    const auto result = run(words);
    EXPECT_EQ(result.code, 0) << result.error;
    return read_token_manifest(folder_ / out).settings.shard_size;
  };
  EXPECT_EQ(shard_size("few", 300, {}), 256);
  EXPECT_EQ(shard_size("odd", 300, {"--batch-size", "100"}), 300) << "whole batches";
  EXPECT_EQ(shard_size("given", 20, {"--shard-size", "8"}), 8);
  EXPECT_EQ(shard_size("given", 20, {}), 8) << "the folder's own";
  EXPECT_EQ(shard_size("given", 20, {"--part", "2/3"}), 8);
  expect_failure(run({"tokenize", model_, "--out", folder_ / "given", "--data",
                      "builtin:dead-leaves?size=16&count=20", "--shard-size", "16"}),
                 2, {"shard size (16 here, 8 there)"});
}

TEST_F(Tokens, DetokenizeSaysWhatIsNoFolderOfTokens) {
  const auto detokenized = [&](const fs::path& tokens) {
    return run({"detokenize", model_, "--tokens", tokens, "--out", folder_ / "x"});
  };
  write_image(folder_ / "photos/class/a.png", open_source("builtin:dead-leaves?size=16")->load(1));
  ASSERT_EQ(tokenize("t").code, 0);
  ASSERT_EQ(detokenize("t", "pictures.tar").code, 0);
  ASSERT_EQ(run({"encode", model_, "--data", folder_ / "photos", "--out", folder_ / "l"}).code, 0);
  write_text(folder_ / "run/config.yaml", to_yaml(tiny_config()));
  write_text(folder_ / "recipe.yaml", to_yaml(tiny_config()));
  fs::create_directories(folder_ / "model");
  fs::copy(model_, folder_ / "model/model.safetensors");
  const std::vector<std::pair<fs::path, std::string>> rows = {
      {folder_ / "pictures.tar", "an image tar, no tokens; tokenize it first: nsvq tokenize MODEL"},
      {folder_ / "photos/class/a.png", "a picture, no tokens; tokenize it first"},
      {folder_ / "photos", "a folder of images, no tokens; tokenize it first"},
      {folder_ / "l", "latents of nsvq encode, no tokens; tokens are made by nsvq tokenize"},
      {folder_ / "run",
       "a run, no tokens; tokens are made by nsvq tokenize " + (folder_ / "run").string()},
      {folder_ / "model", "a model, no tokens"},
      {model_, "a model, no tokens"},
      {folder_ / "recipe.yaml", "a recipe, no tokens"}};
  for (const auto& [path, text] : rows) {
    expect_failure(detokenized(path), 2, {path.string() + ": " + text});
    expect_failure(run({"tokens", "verify", path}), 2, {path.string() + ": " + text});
  }
  fs::create_directories(folder_ / "empty");
  expect_failure(detokenized(folder_ / "empty"), 2, {"empty: holds no manifest.json"});
  EXPECT_FALSE(fs::exists(folder_ / "x"));
}

TEST_F(Tokens, GridsSayHowManyImagesTheyShow) {
  const auto grid = [&](int images, std::vector<std::string> more) {
    std::vector<std::string> words = {"reconstruct",
                                      model_,
                                      "--data",
                                      fmt::format("builtin:dead-leaves?size=16&count={}", images),
                                      "--force",
                                      "--out",
                                      folder_ / "grid.png"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words).out;
  };
  const std::string name = folder_ / "grid.png";
  for (const std::vector<std::string>& fit : {std::vector<std::string>{}, {"--fit", "crop"}}) {
    EXPECT_EQ(grid(9, fit), name + ": 8 of 9 images shown; --limit N shows more\n");
    EXPECT_EQ(grid(8, fit), name + "\n");
  }
  EXPECT_EQ(grid(9, {"--limit", "3"}), name + ": 3 of 9 images shown\n");
  EXPECT_EQ(grid(9, {"--limit", "20"}), name + "\n");
  const auto compared =
      run({"compare", model_, model_, "--data", "builtin:dead-leaves?size=16&count=9&seed=7",
           "--out", name, "--force"})
          .out;
  expect_contains(compared, {"\n8 of 9 images shown; --pictures N shows more\n"});
}

TEST_F(Tokens, BrokenImagesAreNamedAndClassesKept) {
  const auto source = open_source("builtin:dead-leaves?size=16&count=5");
  const auto photos = folder_ / "photos";
  for (const auto* name : {"a/0.png", "b/1.png", "b/2.png"})
    write_image(photos / name, source->load(1));
  write_text(photos / "a/broken.jpg", "no image");
  write_text(photos / "c/worse.png", "none");
  const auto result = tokenize("t", {"--batch-size", "1", "--shard-size", "1"}, photos.string());
  ASSERT_EQ(result.code, 0) << result.error;
  expect_contains(result.out, {"3 images", "2 broken"});
  const auto manifest = read_token_manifest(folder_ / "t");
  ASSERT_EQ(manifest.shards.size(), 5u);
  EXPECT_EQ(manifest.shards[1].broken, std::vector<std::string>{"a/broken.jpg"});
  EXPECT_EQ(manifest.shards[4].broken, std::vector<std::string>{"c/worse.png"});
  EXPECT_EQ(manifest.shards[4].images, 0);
  EXPECT_EQ(shard("t", 0).classes, std::vector<int64_t>{0});
  EXPECT_EQ(shard("t", 3).classes, std::vector<int64_t>{1});
  EXPECT_EQ(shard("t", 3).keys, std::vector<std::string>{"b/2.png"});
  ASSERT_EQ(detokenize("t", "back").code, 0);
  EXPECT_EQ(contents_of(folder_ / "back").size(), 3u);

  fs::remove_all(photos / "a/0.png");
  fs::remove_all(photos / "b");
  const auto none = tokenize("none", {}, (photos / "a").string());
  EXPECT_EQ(none.code, 2);
  expect_contains(none.error, {"no image can be decoded (1 in all)", "broken.jpg"});
}

TEST_F(Tokens, SeveralSourcesWithNamedClasses) {
  const auto source = open_source("builtin:dead-leaves?size=16&count=5");
  for (const auto* name : {"x/bee/0.png", "x/cat/0.png", "y/ant/0.png", "y/cat/0.png"})
    write_image(folder_ / name, source->load(1));
  const auto x = (folder_ / "x").string(), y = (folder_ / "y").string();
  const auto classes_of = [&](const std::string& out) {
    const auto part = shard(out, 0);
    return std::pair(read_token_manifest(folder_ / out).settings.classes, part.classes);
  };
  using Numbers = std::vector<int64_t>;
  using Names = std::vector<std::string>;
  ASSERT_EQ(tokenize("both", {"--data", y}, x).code, 0);
  EXPECT_EQ(classes_of("both"), std::pair(Names({"ant", "bee", "cat"}), Numbers({1, 2, 0, 2})));
  EXPECT_EQ(shard("both", 0).keys,
            Names({"x/bee/0.png", "x/cat/0.png", "y/ant/0.png", "y/cat/0.png"}));

  write_text(folder_ / "names.txt", "ant\nbee\ncat\ndog\n");
  const auto names = (folder_ / "names.txt").string();
  ASSERT_EQ(tokenize("x-tokens", {"--classes", names}, x).code, 0);
  EXPECT_EQ(classes_of("x-tokens"),
            std::pair(Names({"ant", "bee", "cat", "dog"}), Numbers({1, 2})));
  expect_failure(tokenize("x-tokens", {}, x), 2, {"names of classes", "'bee' here, 'ant' there"});
  write_text(folder_ / "names.txt", "bee\n");
  expect_failure(tokenize("z", {"--classes", names}, x), 2, {"'cat'", "not among its 1 names"});
}

TEST_F(Tokens, PairsShowTheImageAndItsReconstruction) {
  const auto folder = [&](const std::string& out, std::vector<std::string> more) {
    std::vector<std::string> words = {"reconstruct", model_,
                                      "--data",      "builtin:dead-leaves?size=16&count=2",
                                      "--out",       (folder_ / out).string()};
    words.insert(words.end(), more.begin(), more.end());
    const auto result = run(words);
    EXPECT_EQ(result.code, 0) << result.error;
    return read_image(folder_ / out / "dead-leaves" / "000001.png");
  };
  const auto image = open_source("builtin:dead-leaves?size=16&count=2")->load(1);
  const auto half = [](const Image& pair, int first) {
    std::vector<uint8_t> pixels;
    for (int y = 0; y < 16; ++y) {
      const auto row = pair.pixels.begin() + 3 * (32 * y + first);
      pixels.insert(pixels.end(), row, row + 3 * 16);
    }
    return pixels;
  };
  for (const std::vector<std::string>& fit : {std::vector<std::string>{}, {"--fit", "pad"}}) {
    auto with_pairs = fit;
    with_pairs.push_back("--pairs");
    const auto name = std::to_string(fit.size());
    const auto pair = folder("pairs-" + name, with_pairs);
    ASSERT_EQ(pair.width, 32);
    ASSERT_EQ(pair.height, 16);
    EXPECT_EQ(half(pair, 0), image.pixels);
    EXPECT_EQ(half(pair, 16), folder("single-" + name, fit).pixels);
  }
  expect_failure(run({"reconstruct", model_, "--data", "builtin:dead-leaves", "--pairs", "--out",
                      (folder_ / "grid.png").string()}),
                 2, {"--pairs"});
}

TEST_F(Tokens, DetokenizedEqualsReconstructed) {
  ASSERT_EQ(tokenize("t").code, 0);
  ASSERT_EQ(detokenize("t", "pictures").code, 0);
  ASSERT_EQ(detokenize("t", "pictures.tar").code, 0);
  ASSERT_EQ(run({"reconstruct", model_, "--data", "builtin:dead-leaves?size=20&count=23", "--out",
                 (folder_ / "reconstructed").string()})
                .code,
            0);
  const auto expected = contents_of(folder_ / "reconstructed");
  ASSERT_EQ(expected.size(), 23u);
  EXPECT_EQ(contents_of(folder_ / "pictures"), expected);
  const TarReader tar(folder_ / "pictures.tar");
  ASSERT_EQ(tar.entries().size(), 23u);
  for (const auto& entry : tar.entries()) EXPECT_EQ(tar.read(entry), expected.at(entry.name));

  ASSERT_EQ(detokenize("t", "jpeg", {"--format", "jpeg"}).code, 0);
  EXPECT_EQ(read_image(folder_ / "jpeg" / "dead-leaves" / "000003.jpg").width, 16);
  expect_failure(detokenize("t", "jpeg"), 2,
                 {"was made with other settings: format jpeg there, png now"});
  expect_failure(detokenize("t", "t"), 2, {"not an empty folder"});
}

TEST_F(Tokens, DetokenizeRefusesWhatDoesNotFit) {
  expect_failure(detokenize("missing", "out"), 2, {"missing: no such folder"});
  ASSERT_EQ(tokenize("t").code, 0);
  const auto path = folder_ / "t" / token_shard_name(1);
  const auto good = read_file(path);
  write_file(path, std::span(good).first(good.size() - 9));
  expect_failure(detokenize("t", "out"), 2, {token_shard_name(1), "bytes", "nsvq tokenize"});
  fs::remove(path);
  expect_failure(detokenize("t", "out2"), 2, {token_shard_name(1), "missing"});
  write_file(path, good);

  auto manifest = read_token_manifest(folder_ / "t");
  manifest.complete = false;
  write_token_manifest(folder_ / "t", manifest);
  expect_failure(detokenize("t", "out3"), 2, {"incomplete"});
  manifest.complete = true;
  auto other = manifest;
  other.shards.pop_back();
  write_token_manifest(folder_ / "t", other);
  expect_failure(detokenize("t", "out3"), 2, {"has not been written yet"});
  other = manifest;
  other.settings.images -= 1;
  write_token_manifest(folder_ / "t", other);
  expect_failure(detokenize("t", "out3"), 2, {manifest.shards.back().file, "the source has"});
  write_token_manifest(folder_ / "t", manifest);

  write_model_file(model_, tiny_config(), 1);
  expect_failure(detokenize("t", "out3"), 2, {"another model", "--any-model"});
  EXPECT_EQ(detokenize("t", "out4", {"--any-model"}).code, 0);
  fs::remove(folder_ / "out4/.nsvq-complete.json");
  expect_failure(detokenize("t", "out4"), 2, {"out4", "not an empty folder"});
  auto fewer = tiny_config();
  fewer.quantizer.codes = 2;
  write_model_file(model_, fewer);
  const auto hopeless = detokenize("t", "out5");
  expect_failure(hopeless, 2, {"index", "codes are 0 to 1", "another model"});
  EXPECT_EQ(hopeless.error.find("--any-model"), std::string::npos) << "it would not help";
  expect_failure(detokenize("t", "out5", {"--any-model"}), 2, {"index", "codes are 0 to 1"});
  EXPECT_FALSE(fs::exists(folder_ / "out3"));
}

/// For every quantizer with tokens: what the decoder makes of stored tokens is, bit for bit, what
/// the forward pass of training made.
TEST(TokensOfEveryQuantizer, DecodeToTheReconstruction) {
  const TemporaryFolder folder;
  for (const auto& kind : quantizer_kinds()) {
    if (!kind.tokens || !kind.untrained.empty()) continue;
    auto config = tiny_config_of(kind.name);
    config.model.mid_attention = true;
    torch::manual_seed(5);
    Tokenizer model(config);
    const torch::NoGradGuard no_grad;
    for (const auto& [batch, height, width] :
         {std::tuple{3, 16, 16}, {1, 8, 24}, {5, 4, 2}, {1, 2, 4}, {1, 2, 2}, {3, 2, 2}}) {
      const auto images = at::randn({batch, 3, height, width});
      const auto forward = model->quantizer->quantize(model->encoder->forward(images), {});
      const auto reconstruction = model->decoder->forward(forward.latents);

      const auto path = folder / "shard";
      write_token_shard(path,
                        {model->encode(images), std::vector<int64_t>(batch, -1),
                         std::vector<std::string>(batch, "key")},
                        model->quantizer->codes());
      const auto tokens = read_token_shard(path, model->quantizer->codes()).tokens;
      EXPECT_TRUE(at::equal(tokens, forward.indices)) << kind.name;
      EXPECT_TRUE(at::equal(model->decode(tokens), reconstruction))
          << kind.name << " " << batch << " " << height << "x" << width;
    }
  }
}

}  // namespace
}  // namespace nsvq
