// nsvq generate: train, sample, inpaint, eval, export.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "nsvq/io/images/image.h"
#include "nsvq/nn/features/inception.h"
#include "nsvq/runs/layout/layout.h"
#include "tests/cli/kill.h"
#include "tests/cli/run.h"
#include "tests/generation/tiny_generation.h"
#include "tests/weights_store.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

class CliGenerate : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  void SetUp() override {
    tokenizer_ = write_tiny_tokenizer(folder_.path()).string();
    auto config = tiny_generation_config();
    config.train.epochs = 1;
    write_text(path("tiny.yaml"), to_yaml(config));
  }

  Result train(std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"generate", "train", path("tiny.yaml"), "--run", run_};
    words.insert(words.end(), more.begin(), more.end());
    return nsvq::run(words);
  }
  void train_well(std::vector<std::string> more = {}) const {
    more.push_back("tokenizer=" + tokenizer_);
    const auto trained = train(more);
    ASSERT_EQ(trained.code, 0) << trained.error;
    expect_contains(trained.out, {"perplexity", "samples: ", "report.html", "\n  verdict: "});
  }
  /// Classes 0, 1, 2 in turn for tokens of a file.
  void train_on_classes() const {
    const auto grids =
        write_npy(path("grids.npy"), at::arange(24 * 16).remainder(64).view({24, 16}));
    const auto classes = write_npy(path("classes.npy"), at::arange(24).remainder(3));
    train_well({"tokens=" + grids, "token_classes=" + classes, "val_tokens=" + grids,
                "val_token_classes=" + classes, "classes=3"});
  }
  Result sample(std::vector<std::string> more) const {
    std::vector<std::string> words = {"generate", "sample", run_};
    words.insert(words.end(), more.begin(), more.end());
    return nsvq::run(words);
  }
  /// The program itself, which starts itself again for several processes.
  void run_program(const std::string& arguments) const {
    const auto command =
        fmt::format("'{}' generate {} >'{}' 2>&1", NSVQ_PROGRAM, arguments, path("program.log"));
    EXPECT_EQ(std::system(command.c_str()), 0) << read_text(path("program.log"));
  }
  void expect_equal_folders(const std::string& one, const std::string& two) const {
    for (const auto& entry : fs::directory_iterator(path(one))) {
      const auto name = entry.path().filename();
      if (name == ".nsvq-complete.json") continue;
      EXPECT_EQ(read_file(entry.path()), read_file(fs::path(path(two)) / name)) << name;
    }
  }

  TemporaryFolder folder_;
  std::string tokenizer_;
  std::string run_ = (folder_.path() / "a run").string();
};

TEST_F(CliGenerate, TrainsAndSamples) {
  train_well();
  const auto grid = sample({"--count", "5", "--out", path("grid.png")});
  ASSERT_EQ(grid.code, 0) << grid.error;
  expect_contains(grid.out, {"grid.png\n5 images in ", " images/s, ", " tokens/s, decoding"});
  const auto picture = read_image(path("grid.png"));
  EXPECT_EQ(picture.width, 3u * 16 + 2 * 2);
  EXPECT_EQ(picture.height, 2u * 16 + 2);

  // Images of a folder are those of any other number and batch.
  for (const auto& [out, count, batch] :
       {std::tuple{"nine", "9", "2"}, {"three", "3", "64"}, {"one", "1", "1"}}) {
    const auto made = sample({"--count", count, "--batch-size", batch, "--seed", "4", "--top-k",
                              "30", "--out", path(out)});
    ASSERT_EQ(made.code, 0) << made.error;
  }
  expect_equal_folders("three", "nine");
  expect_equal_folders("one", "nine");
  expect_contains(
      sample({"--count", "3", "--seed", "4", "--top-k", "30", "--out", path("three")}).out,
      {"0 images"});
  expect_failure(sample({"--count", "3", "--seed", "5", "--out", path("three")}), 2, {"three"});

  // Tokens of the same images, which the tokenizer decodes.
  ASSERT_EQ(sample({"--count", "3", "--seed", "4", "--top-k", "30", "--out", path("t.npy")}).code,
            0);
  const auto bytes = read_file(path("t.npy"));
  EXPECT_EQ(parse_npy(bytes, NpyNumbers::integer).sizes(), at::IntArrayRef({3, 4, 4}));
  ASSERT_EQ(
      run({"detokenize", tokenizer_, "--tokens", path("t.npy"), "--out", path("decoded")}).code, 0);
  for (const auto* name : {"000000.png", "000002.png"}) {
    const auto a = read_image(path("decoded/") + name), b = read_image(path("three/") + name);
    ASSERT_EQ(a.pixels.size(), b.pixels.size());
    int largest = 0;  // decoded in batches of other sizes
    for (size_t i = 0; i < a.pixels.size(); ++i) {
      largest = std::max(largest, std::abs(int{a.pixels[i]} - int{b.pixels[i]}));
    }
    EXPECT_LE(largest, 1) << name;
  }
}

TEST_F(CliGenerate, ShortWordsNameWhatIsLearned) {
  const auto tokens =
      write_token_folder(path("tokens"), tokenizer_, "builtin:dead-leaves?size=16&count=24");
  train_well({"tokens=" + tokens, "family=ar"});
  const auto printed = run({"generate", "config", run_, "codes=64"});
  const auto config = parse_config<GenerationConfig>(printed.out, "printed");
  EXPECT_EQ(config.tokens, tokens);
  EXPECT_EQ(config.generator.family, "ar");
  EXPECT_EQ(config.codes, 64);
  // Without data.size it is that of the folder's images.
  write_text(path("short.yaml"), "train:\n  epochs: 1\n");
  const auto other = run({"generate", "config", path("short.yaml"), "tokens=" + tokens});
  expect_contains(other.out, {"size: 16"});
}

TEST_F(CliGenerate, ClassesAndGuidance) {
  train_on_classes();
  EXPECT_EQ(sample({"--class", "1", "--guidance", "2", "--temperature", "0.9", "--top-p", "0.8",
                    "--steps", "3", "--count", "2", "--out", path("x.png")})
                .code,
            0);
  const auto by_chance =
      sample({"--class", "random", "--count", "4", "--resize", "40", "--out", path("random.png")});
  ASSERT_EQ(by_chance.code, 0) << by_chance.error;
  EXPECT_EQ(read_image(path("random.png")).width, 2 * 40 + 2);
  expect_failure(sample({"--class", "3", "--out", path("y.png")}), 2, {"classes 0 to 2"});
  expect_failure(sample({"--class", "cat", "--out", path("y.png")}), 2, {"--class 'cat'"});
  EXPECT_FALSE(fs::exists(path("y.png")));
}

TEST_F(CliGenerate, BadInputIsOneLine) {
  expect_failure(train(), 2, {"generator.tokenizer is not set"});
  expect_failure(train({"tokens=" + path("nowhere")}), 2, {"generator.tokens", "nowhere"});
  expect_failure(train({"token=" + path("nowhere")}), 2, {"token"});
  const auto bare = write_npy(path("bare.npy"), at::full({4, 16}, 64));
  expect_failure(train({"tokens=" + bare, "tokenizer=" + tokenizer_}), 2,
                 {"bare.npy", "the token 64", "64 codes"});
  EXPECT_FALSE(fs::exists(run_));
  train_well();
  const auto out = path("x.png");
  expect_failure(sample({"--class", "1", "--out", out}), 2, {"class 1", "no classes"});
  expect_failure(sample({"--guidance", "2", "--out", out}), 2, {"--guidance 2", "no classes"});
  expect_failure(sample({"--steps", "17", "--out", out}), 2, {"17", "16 tokens"});
  expect_failure(sample({"--top-p", "2", "--out", out}), 2, {"--top-p"});
  expect_failure(sample({"--count", "100000000", "--out", out}), 2, {"more than the limit"});
  expect_failure(run({"generate", "sample", tokenizer_, "--out", out}), 2,
                 {"a generator of tokens is asked for"});
  expect_failure(run({"diffusion", "sample", run_, "--out", out}), 2, {"no diffusion model"});
  expect_failure(run({"eval", run_, "--data", "builtin:dead-leaves?size=16&count=2"}), 2,
                 {"a generator of tokens"});
  expect_failure(run({"generate", "eval", run_, "--data", "nowhere", "--metrics", "psnr"}), 2,
                 {"psnr"});
  const auto model = list_checkpoints(run_).back() / kModelFile;
  write_text(model, read_text(model).substr(0, 5000));
  expect_failure(run({"generate", "sample", model.string(), "--out", out}), 2,
                 {"model.safetensors"});
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(CliGenerate, InpaintsAndGoesOn) {
  train_well();
  Image image{.width = 24, .height = 16, .pixels = {}};
  image.pixels.assign(24 * 16 * 3, 120);
  write_image(path("image.png"), image);
  std::fill(image.pixels.begin(), image.pixels.begin() + 24 * 8 * 3, uint8_t{255});
  write_image(path("mask.png"), image);
  const auto inpaint = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"generate", "inpaint", run_, "--image", path("image.png")};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  const auto filled = inpaint({"--mask", path("mask.png"), "--count", "2", "--out", path("f.png")});
  ASSERT_EQ(filled.code, 0) << filled.error;
  EXPECT_EQ(read_image(path("f.png")).width, 2 * 16 + 2);
  const auto wider = inpaint({"--outpaint", "right", "--out", path("w.png")});
  ASSERT_EQ(wider.code, 0) << wider.error;
  EXPECT_EQ(read_image(path("w.png")).width, 24);
  EXPECT_EQ(read_image(path("w.png")).height, 16);
  const auto out = path("x.png");
  expect_failure(inpaint({"--out", out}), 2, {"--mask", "--outpaint"});
  expect_failure(inpaint({"--mask", path("image.png"), "--out", out}), 2, {"no pixel is white"});
  Image other{.width = 16, .height = 16, .pixels = {}};
  other.pixels.assign(16 * 16 * 3, 255);
  write_image(path("other.png"), other);
  expect_failure(inpaint({"--mask", path("other.png"), "--out", out}), 2,
                 {"--mask", "other.png", "16x16", "24x16"});
  expect_failure(inpaint({"--outpaint", "up", "--out", out}), 2, {"--outpaint"});
  expect_failure(inpaint({"--mask", path("mask.png"), "--out", path("image.png")}), 2,
                 {"image.png"});
  fs::remove_all(run_);
  train_well({"family=ar"});
  expect_failure(inpaint({"--mask", path("mask.png"), "--out", out}), 2, {"family ar", "masked"});
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(CliGenerate, AnExportSamplesByItself) {
  train_well();
  ASSERT_EQ(sample({"--count", "2", "--out", path("before.png")}).code, 0);
  ASSERT_EQ(run({"generate", "export", run_, "--out", path("export")}).code, 0);
  fs::remove(tokenizer_);
  expect_failure(sample({"--out", path("x.png")}), 2, {"tokenizer.safetensors", "--tokenizer"});
  const auto after =
      run({"generate", "sample", path("export"), "--count", "2", "--out", path("after.png")});
  ASSERT_EQ(after.code, 0) << after.error;
  EXPECT_EQ(read_file(path("after.png")), read_file(path("before.png")));
}

TEST_F(CliGenerate, FidOfSamples) {
  WeightsStore store;
  store.add("inception", Inception());
  train_well();
  const auto json = path("figures.json");
  const auto result = run({"generate", "eval", run_, "--samples", "3", "--reference",
                           "builtin:dead-leaves?size=16&count=4", "--json", json});
  ASSERT_EQ(result.code, 0) << result.error;
  const auto figures = nlohmann::json::parse(read_text(json));
  EXPECT_GT(figures.at("fid").get<double>(), 0);
  EXPECT_EQ(figures.at("images"), 3);
  EXPECT_EQ(figures.at("reference_images"), 4);
  EXPECT_EQ(figures.at("family"), "masked");
  EXPECT_EQ(figures.at("temperature"), 1);
  EXPECT_TRUE(figures.at("class").is_null());
}

TEST_F(CliGenerate, ExportsForOtherProgramsWhatTheyHave) {
  train_on_classes();
  const auto out = path("theirs.safetensors");
  const auto made = run({"generate", "export", run_, "--as", "halton", "--out", out});
  ASSERT_EQ(made.code, 0) << made.error;
  const auto back = run({"generate", "import", out, "generator.heads=2", "--tokenizer", tokenizer_,
                         "--out", path("back")});
  ASSERT_EQ(back.code, 0) << back.error;
  expect_contains(back.out, {"Halton-MaskGIT's generator", "4x4 tokens of 64 codes, 3 classes"});
  for (const auto& [model, file] : {std::pair{run_, "a.npy"}, {path("back"), "b.npy"}}) {
    const auto sampled =
        run({"generate", "sample", model, "--count", "3", "--guidance", "2", "--out", path(file)});
    ASSERT_EQ(sampled.code, 0) << sampled.error;
  }
  expect_failure(
      run({"generate", "export", run_, "--as", "llamagen", "--out", path("x.safetensors")}), 2,
      {"family masked", "llamagen"});
  expect_failure(run({"generate", "export", run_, "--as", "halton", "--out", out}), 2, {"--force"});
  expect_failure(run({"generate", "import", tokenizer_, "--out", path("none")}), 2,
                 {"tokenizer", "nsvq import"});
  EXPECT_FALSE(fs::exists(path("none")));
}

TEST_F(CliGenerate, RanksSampleWhatOneProcessDoes) {
  train_well();
  for (const auto& [out, ranks] : {std::pair{"one", ""}, {"two", "--gpus 2"}}) {
    run_program(fmt::format("sample '{}' --count 7 --batch-size 2 --device cpu --out '{}' {}", run_,
                            path(out), ranks));
    run_program(fmt::format("sample '{}' --count 7 --batch-size 2 --device cpu --out '{}.npy' {}",
                            run_, path(out), ranks));
  }
  expect_equal_folders("one", "two");
  EXPECT_EQ(read_file(path("one.npy")), read_file(path("two.npy")));
}

TEST_F(CliGenerate, RunsAndInfoKnowThem) {
  train_well();
  const auto listed = run({"runs", run_});
  EXPECT_EQ(listed.code, 0);
  expect_contains(listed.out, {"finished", "3 of 3"});
  EXPECT_EQ(listed.out.find("damaged"), std::string::npos) << listed.out;
  const auto info = run({"info", run_});
  EXPECT_EQ(info.code, 0) << info.error;
  expect_contains(info.out, {"generator    ", " parameters", "family       masked", "codes",
                             "tokenizer    " + tokenizer_, "label_dropout: 0.1"});
  expect_contains(info.out.substr(info.out.find("last evaluation")), {"\n  images ", "\n  loss "});
  EXPECT_EQ(run({"report", run_, "--out", path("report.html")}).code, 0);
}

TEST_F(CliGenerate, ARunResumesAndForks) {
  train_well();
  const auto longer = train({"tokenizer=" + tokenizer_, "train.epochs=2", "--resume"});
  ASSERT_EQ(longer.code, 0) << longer.error;
  EXPECT_EQ(list_checkpoints(run_).back().filename(), "step-6");
  const auto fork = run(
      {"generate", "train", run_, "--fork", path("fork"), "train.epochs=3", "optimizer.lr=0.0001"});
  ASSERT_EQ(fork.code, 0) << fork.error;
  EXPECT_EQ(list_checkpoints(path("fork")).back().filename(), "step-9");
}

}  // namespace
}  // namespace nsvq
