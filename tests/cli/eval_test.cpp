// `nsvq eval` and `nsvq compare` on two models that hardly learned.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/images/image.h"
#include "nsvq/nn/features/inception.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/tokenizer/open_model.h"
#include "tests/cli/run.h"
#include "tests/train/tiny.h"
#include "tests/weights_store.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class Evaluation : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    models_ = std::make_unique<TemporaryFolder>();
    auto config = tiny_config();
    config.train.epochs = 1;
    for (const auto& [name, size] : {std::pair{"one", 16}, {"two", 16}, {"large", 32}}) {
      config.data.size = size;
      config.quantizer.codes += 8;
      write_text(*models_ / "recipe.yaml", to_yaml(config));
      const auto trained = run({"train", *models_ / "recipe.yaml", "--run", *models_ / name});
      ASSERT_EQ(trained.code, 0) << trained.error;
    }
  }
  static void TearDownTestSuite() { models_.reset(); }

  static std::string model(const std::string& name) { return *models_ / name; }

  static inline std::unique_ptr<TemporaryFolder> models_;
  TemporaryFolder folder_;
  std::string json_ = folder_ / "figures.json";
  std::string data_ = tiny_config().data.val.text();
};

std::set<std::string> keys_of(const json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

TEST_F(Evaluation, TheDefaultIsFixedAndSaysItsChoices) {
  const auto result = run({"eval", model("one"), "--data", data_, "--force", "--json", json_});
  ASSERT_EQ(result.code, 0) << result.error;
  const auto figures = json::parse(read_text(json_));
  EXPECT_EQ(keys_of(figures), (std::set<std::string>{"model", "data", "images", "broken_images",
                                                     "psnr", "psnr_pooled", "ssim", "utilisation",
                                                     "perplexity", "entropy", "conventions"}));
  EXPECT_TRUE(figures.at("images").is_number_integer());
  EXPECT_EQ(figures.at("images"), 7);
  EXPECT_TRUE(figures.at("broken_images").is_number_integer());
  EXPECT_EQ(figures.at("conventions").at("as"), "nsvq");
  EXPECT_EQ(figures.at("conventions").at("psnr"), "mean over images; 8-bit rounded");
  EXPECT_NEAR(std::exp2(figures.at("entropy").get<double>()),
              figures.at("perplexity").get<double>(), 1e-9);
  expect_contains(result.out, {"as nsvq", "psnr", "data range 1", "broken images"});
  const auto fewer = run({"eval", model("one"), "--data", data_, "--limit", "3", "--json"});
  EXPECT_EQ(json::parse(fewer.out).at("images"), 3);
}

TEST_F(Evaluation, MetricsAndConventionsAreChosen) {
  const auto figures = [&](const std::string& as, const std::string& pixels) {
    std::vector<std::string> words = {"eval",      model("one"),    "--data", data_,
                                      "--force",   "--json",        json_,    "--metrics",
                                      "ssim,psnr", "--conventions", as};
    if (!pixels.empty()) words.insert(words.end(), {"--pixels", pixels});
    const auto result = run(words);
    EXPECT_EQ(result.code, 0) << result.error;
    return json::parse(read_text(json_));
  };
  const auto ours = figures("nsvq", ""), simvq = figures("simvq", "");
  const auto llamagen = figures("llamagen", ""), unrounded = figures("nsvq", "float");
  EXPECT_FALSE(ours.contains("entropy"));
  EXPECT_LT(simvq.at("psnr"), ours.at("psnr"));
  EXPECT_GT(llamagen.at("ssim"), ours.at("ssim"));
  EXPECT_EQ(llamagen.at("psnr"), ours.at("psnr"));
  EXPECT_NE(unrounded.at("psnr"), ours.at("psnr"));
  EXPECT_EQ(simvq.at("conventions").at("psnr"), "mean over batches of 64 images; 8-bit truncated");
  EXPECT_EQ(unrounded.at("conventions").at("psnr"), "mean over images; float");
}

TEST_F(Evaluation, BatchesDoNotChangeTheFiguresOfSimvq) {
  const auto psnr = [&](const std::string& size) {
    EXPECT_EQ(run({"eval", model("one"), "--data", data_, "--force", "--json", json_,
                   "--conventions", "simvq", "--batch-size", size})
                  .code,
              0);
    return json::parse(read_text(json_)).at("psnr").get<double>();
  };
  EXPECT_NEAR(psnr("2"), psnr("7"), 1e-3);
}

TEST_F(Evaluation, NetworksAreUsedWhenAskedFor) {
  WeightsStore store;
  const std::vector<std::string> words = {
      "eval",   model("large"), "--data",    "builtin:dead-leaves?size=32&count=3", "--force",
      "--json", json_,          "--metrics", "lpips-squeeze,fd-squeezenet1_1"};
  expect_failure(run(words), 2, {"squeeze", "nsvq weights"});
  store.add_lpips("squeeze");
  const auto result = run(words);
  ASSERT_EQ(result.code, 0) << result.error;
  const auto figures = json::parse(read_text(json_));
  EXPECT_GT(figures.at("lpips-squeeze"), 0);
  EXPECT_GT(figures.at("fd-squeezenet1_1"), 0);
  EXPECT_EQ(figures.at("weights").size(), 2u);
  EXPECT_EQ(figures.at("weights").at("squeezenet1_1").at("source"), "a test");
  expect_contains(result.out, {"  weights lpips-squeeze: official values, from a test\n"});
  auto single = words;
  single[3] = "builtin:dead-leaves?size=32&count=1";
  const auto refused = run(single);
  EXPECT_EQ(refused.code, 2);
  expect_contains(refused.error, {"fd-squeezenet1_1", "two images"});
}

TEST_F(Evaluation, SeveralProcessesGiveTheFiguresOfOne) {
  WeightsStore store;
  store.add_lpips("squeeze");
  const std::string metrics =
      "psnr,psnr_pooled,ssim,utilisation,perplexity,entropy,lpips-squeeze,fd-squeezenet1_1";
  // Real processes; 7 images of which one cannot be read, so that no rank has what another has.
  const fs::path images = folder_ / "images";
  fs::create_directory(images);
  for (int i = 0; i < 6; ++i) {
    Image image{.width = 32, .height = 32, .pixels = std::vector<uint8_t>(3072)};
    for (size_t j = 0; j < image.pixels.size(); ++j) image.pixels[j] = (j * (i + 3) * 7) % 251;
    write_image(images / fmt::format("{}.png", i), image);
  }
  write_text(images / "broken.png", "not a picture");
  const auto file = [&](const char* name) { return (folder_ / name).string(); };
  const auto figures = [&](const std::string& more) {
    const auto command = fmt::format(
        "'{}' eval '{}' --data '{}' --metrics {} --device cpu --batch-size 2 --force --json '{}' "
        "--histogram '{}' {} >'{}' 2>'{}'",
        NSVQ_PROGRAM, model("large"), images.string(), metrics, json_, file("usage.csv"), more,
        file("out"), file("error"));
    EXPECT_EQ(std::system(command.c_str()), 0) << read_text(folder_ / "error");
    const auto text = read_text(folder_ / "out");
    EXPECT_EQ(text.find("PSNR"), text.rfind("PSNR")) << "printed once: " << text;
    return std::pair(json::parse(read_text(json_)), read_text(folder_ / "usage.csv"));
  };
  const auto [one, histogram] = figures("");
  EXPECT_EQ(one.at("images"), 6);
  for (const std::string ranks : {"--gpus 2", "--gpus=4"}) {
    const auto [several, its_histogram] = figures(ranks);
    EXPECT_EQ(keys_of(several), keys_of(one));
    for (const auto& [key, value] : one.items()) {
      if (value.is_number_float()) {
        EXPECT_NEAR(several.at(key), value, 1e-5 * std::abs(value.get<double>())) << key;
      } else {
        EXPECT_EQ(several.at(key), value) << key;
      }
    }
    EXPECT_EQ(its_histogram, histogram);
  }
}

TEST_F(Evaluation, StatisticsTakeThePlaceOfTheImagesAndAreNamed) {
  WeightsStore store;
  store.add_lpips("squeeze");
  const std::string metric = "fd-squeezenet1_1", file = folder_ / "images.npz";
  const auto figure = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"eval",   model("large"), "--data",    data_, "--force",
                                      "--json", json_,          "--metrics", metric};
    words.insert(words.end(), more.begin(), more.end());
    const auto result = run(words);
    EXPECT_EQ(result.code, 0) << result.error;
    if (!more.empty()) expect_contains(result.out, {file});
    return json::parse(read_text(json_));
  };
  const auto saved = run(
      {"images", "statistics", "--data", data_, "--metric", metric, "--size", "32", "--out", file});
  ASSERT_EQ(saved.code, 0) << saved.error;
  const auto from_images = figure({}), from_file = figure({"--statistics", file});
  EXPECT_EQ(from_file.at("statistics"), file);
  EXPECT_FALSE(from_images.contains("statistics"));
  EXPECT_EQ(from_file.at("reference_images"), 7);
  EXPECT_FALSE(from_images.contains("reference_images"));
  const double expected = from_images.at(metric);
  EXPECT_NEAR(from_file.at(metric).get<double>(), expected, 1e-6 * expected);

  const auto evaluated = [&](const std::string& size) {
    const auto made = run({"images", "statistics", "--data", data_, "--metric", metric, "--size",
                           size, "--force", "--out", file});
    EXPECT_EQ(made.code, 0) << made.error;
    const auto result =
        run({"eval", model("large"), "--data", data_, "--metrics", metric, "--statistics", file});
    EXPECT_EQ(result.code, 0) << result.error;
    return result.error;
  };
  expect_contains(evaluated("24"), {"statistics are of images of 24x24, but these are of 32x32"});
  EXPECT_EQ(evaluated("32").find("statistics are of images"), std::string::npos);
}

TEST_F(Evaluation, FidNamesItsWeights) {
  WeightsStore store;
  store.add("inception", Inception());
  const std::string data = "builtin:dead-leaves?size=16&count=3&seed=1";
  const auto result = run({"compare", model("one"), model("two"), "--data", data, "--metrics",
                           "rfid", "--force", "--json", json_});
  ASSERT_EQ(result.code, 0) << result.error;
  expect_contains(result.out, {"299x299", "  weights inception: official values, from a test\n"});
  expect_contains(result.error, {"fid: computing the distance by 2048 features",
                                 "fid: 3 images are too few for 2048 features"});
  const auto compared = json::parse(read_text(json_));
  EXPECT_EQ(compared.at("weights").at("inception").at("values"), "official");
  const auto& models = compared.at("models");
  EXPECT_EQ(models[0].at("images"), 3);
  EXPECT_GT(models[0].at("fid"), 0);
  EXPECT_NE(models[1].at("fid"), models[0].at("fid"));
}

TEST_F(Evaluation, MistakesGetOneLineBeforeTheWork) {
  write_text(folder_ / "file", "");
  const auto eval = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"eval", model("one"), "--data", data_});
    return run(words);
  };
  expect_failure(eval({"--metrics", "psnr,sism"}), 2, {"'sism'", "ssim", "lpips-vgg"});
  expect_failure(eval({"--metrics", "psnr,"}), 2, {"''"});
  expect_failure(eval({"--conventions", "simqv"}), 2, {"'simqv'", "simvq"});
  expect_failure(eval({"--pixels", "int"}), 2, {"'int'", "truncated"});
  const auto unwritable = folder_ / "file/figures.json";
  expect_failure(eval({"--json", unwritable}), 2, {folder_ / "file"});
  expect_failure(eval({"--json", folder_.path()}), 2, {folder_.path()});
  expect_failure(eval({"--histogram", folder_ / "file/usage.csv"}), 2, {folder_ / "file"});
  const auto one = "builtin:dead-leaves?size=16&count=1&seed=1";
  expect_failure(run({"eval", model("one"), "--data", one, "--metrics", "fid"}), 2,
                 {one, "fid needs at least two images"});
}

TEST_F(Evaluation, BrokenImagesAreCountedAndNamed) {
  const auto images = folder_ / "images";
  fs::create_directory(images);
  write_text(images / "a.png", "no picture");
  write_text(images / "b.png", "neither");
  const auto all_broken = run({"eval", model("one"), "--data", images});
  EXPECT_EQ(all_broken.code, 2);
  const auto& text = all_broken.error;
  const auto last_line = text.substr(text.rfind('\n', text.size() - 2) + 1);
  expect_contains(last_line,
                  {"nsvq: " + images.string() + ": no image can be decoded (2 in all)", "a.png"});
  write_image(images / "c.png", Image{16, 16, std::vector<uint8_t>(16 * 16 * 3, 90)});
  const auto result = run({"eval", model("one"), "--data", images, "--force", "--json", json_});
  ASSERT_EQ(result.code, 0) << result.error;
  EXPECT_EQ(json::parse(read_text(json_)).at("broken_images"), 2);
  EXPECT_EQ(json::parse(read_text(json_)).at("images"), 1);
}

TEST_F(Evaluation, CompareGivesTheFiguresOfEval) {
  const std::string grid = folder_ / "grid.png";
  const auto result = run({"compare", model("one"), model("two") + "/", "--data", data_, "--force",
                           "--json", json_, "--out", grid, "--pictures", "5", "--enlarge", "3"});
  ASSERT_EQ(result.code, 0) << result.error;
  expect_contains(result.out, {" one ", " two\n", "psnr", "rows from the top: images, one, two"});
  const auto compared = json::parse(read_text(json_));
  ASSERT_EQ(compared.at("models").size(), 2u);
  for (const auto& figures : compared.at("models")) {
    const auto name = figures.at("name").get<std::string>();
    ASSERT_EQ(run({"eval", model(name), "--data", data_, "--force", "--json", json_}).code, 0);
    const auto alone = json::parse(read_text(json_));
    for (const auto& key : {"psnr", "ssim", "entropy", "images", "model"}) {
      EXPECT_EQ(alone.at(key), figures.at(key)) << key;
    }
  }
  const auto picture = read_image(grid);
  EXPECT_EQ(picture.width, 3 * (5 * 16 + 4 * 2));
  EXPECT_EQ(picture.height, 3 * (3 * 16 + 2 * 2));
}

TEST_F(Evaluation, ColumnsAreCalledByWhereTheirPathsDiffer) {
  fs::create_directories(folder_ / "x/a");
  const auto copied = folder_ / "x/a/model.safetensors";
  fs::copy(open_model_file(model("one")).path, copied);
  fs::copy(folder_ / "x/a", folder_ / "x/b");
  const auto other = folder_ / "x/b/model.safetensors";
  expect_contains(run({"compare", copied, other, copied, "--data", data_}).out,
                  {"          a          b          a\n"});
  expect_contains(run({"compare", copied, copied, "--data", data_}).out, {"model.safetensors"});
}

TEST_F(Evaluation, CompareRefusesWhatItCannotCompare) {
  const auto compare = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "compare");
    words.insert(words.end(), {"--data", data_});
    return run(words);
  };
  expect_failure(compare({model("one")}), 2, {"give at least two models"});
  expect_failure(compare({model("one"), model("large")}), 2, {"16", "32", model("large")});
  expect_failure(compare({model("one"), model("none")}), 2, {model("none")});
  expect_failure(compare({model("one"), model("two"), "--out", "grid.gif"}), 2,
                 {"grid.gif", ".png"});
}

}  // namespace
}  // namespace nsvq
