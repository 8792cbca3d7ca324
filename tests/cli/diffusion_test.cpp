// nsvq diffusion: train, sample, eval, export.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/diffusion/config.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/contents_hash.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/io/images/image.h"
#include "nsvq/nn/features/inception.h"
#include "tests/cli/kill.h"
#include "tests/cli/run.h"
#include "tests/diffusion/tiny_diffusion.h"
#include "tests/npz_images.h"
#include "tests/weights_store.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

class CliDiffusion : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  void SetUp() override {
    tokenizer_ = write_tiny_tokenizer(folder_.path()).string();
    auto config = tiny_diffusion_config("");
    config.train.epochs = 1;
    write_text(path("tiny.yaml"), to_yaml(config));
  }

  Result train(std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"diffusion", "train", path("tiny.yaml"), "--run", run_};
    words.insert(words.end(), more.begin(), more.end());
    return nsvq::run(words);
  }

  void train_well() {
    const auto trained = train({"diffusion.tokenizer=" + tokenizer_});
    ASSERT_EQ(trained.code, 0) << trained.error;
    expect_contains(trained.out, {"loss", "samples: ", "report.html", "\n  verdict: "});
  }

  /// The program itself, which starts itself again for several processes.
  void run_program(const std::string& arguments) const {
    const auto command =
        fmt::format("'{}' diffusion {} >'{}' 2>&1", NSVQ_PROGRAM, arguments, path("program.log"));
    EXPECT_EQ(std::system(command.c_str()), 0) << read_text(path("program.log"));
  }

  TemporaryFolder folder_;
  std::string tokenizer_;
  std::string run_ = (folder_.path() / "a run").string();
};

/// All but the record of a complete folder.
std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::erase(names, ".nsvq-complete.json");
  std::sort(names.begin(), names.end());
  return names;
}

TEST_F(CliDiffusion, WhatCannotBeSampledIsRefusedBeforeTheFirstStep) {
  train_well();
  const auto sample = [&](const std::string& count, const std::string& out) {
    return run({"diffusion", "sample", run_, "--count", count, "--out", out});
  };
  expect_failure(sample("100000000", path("grid.png")), 2, {"grid.png", "more than the limit"});
  write_text(path("notes.tar"), "notes of mine");
  expect_failure(sample("1", path("notes.tar")), 2, {"notes.tar: exists", "--force"});
  fs::create_directories(path("folder.tar"));
  expect_failure(sample("1", path("folder.tar")), 2, {"folder.tar", "a folder"});
  EXPECT_EQ(read_text(path("notes.tar")), "notes of mine");
}

TEST_F(CliDiffusion, AModelWithoutADeviationIsRefused) {
  train_well();
  ASSERT_EQ(run({"diffusion", "export", run_, "--out", path("model")}).code, 0);
  const auto file = path("model/model.safetensors");
  auto contents = read_safetensors(file);
  contents.tensors.at("latent_deviation").zero_();
  add_contents_hash(contents);
  write_safetensors(file, contents);
  expect_failure(
      run({"diffusion", "sample", path("model"), "--count", "1", "--out", path("grid.png")}), 2,
      {"model.safetensors", "latent_deviation"});
}

TEST_F(CliDiffusion, TrainsAndSamples) {
  train_well();
  const auto grid = run({"diffusion", "sample", run_, "--count", "5", "--out", path("grid.png")});
  ASSERT_EQ(grid.code, 0) << grid.error;
  const auto picture = read_image(path("grid.png"));
  EXPECT_EQ(picture.width, 3u * 16 + 2 * 2);
  EXPECT_EQ(picture.height, 2u * 16 + 2);

  // Images of a folder are those of any other number and batch.
  const auto sample = [&](const std::string& out, const std::string& count,
                          const std::string& batch) {
    const auto result = run({"diffusion", "sample", run_, "--count", count, "--batch-size", batch,
                             "--seed", "4", "--steps", "3", "--out", path(out)});
    EXPECT_EQ(result.code, 0) << result.error;
  };
  sample("five", "5", "2");
  sample("three", "3", "3");
  sample("three", "3", "3");  // is complete
  for (const auto* count : {"2", "9"}) {
    expect_failure(run({"diffusion", "sample", run_, "--count", count, "--batch-size", "3",
                        "--seed", "4", "--steps", "3", "--out", path("three")}),
                   2, {".nsvq-complete.json", "3", count});
  }
  EXPECT_EQ(files_in(path("five")).size(), 5u);
  EXPECT_EQ(files_in(path("three")),
            (std::vector<std::string>{"000000.png", "000001.png", "000002.png"}));
  for (const auto& name : files_in(path("three"))) {
    const auto a = read_image(path("five/" + name)), b = read_image(path("three/" + name));
    ASSERT_EQ(a.pixels.size(), b.pixels.size());
    int largest = 0;  // a code may win by the last bit, which is seldom
    for (size_t i = 0; i < a.pixels.size(); ++i) {
      largest = std::max(largest, std::abs(int{a.pixels[i]} - int{b.pixels[i]}));
    }
    EXPECT_LE(largest, 1) << name;
  }
  for (const auto* sampler : {"ddpm", "dpm-solver++"}) {
    EXPECT_EQ(run({"diffusion", "sample", run_, "--count", "2", "--sampler", sampler, "--out",
                   path(std::string(sampler) + ".tar")})
                  .code,
              0);
  }
}

TEST_F(CliDiffusion, AnExportSamplesByItself) {
  train_well();
  const auto exported = run({"diffusion", "export", run_, "--out", path("export")});
  ASSERT_EQ(exported.code, 0) << exported.error;
  EXPECT_EQ(files_in(path("export")), (std::vector<std::string>{"config.json", "model.safetensors",
                                                                "scheduler", "tokenizer"}));
  const auto scheduler =
      nlohmann::json::parse(read_text(path("export/scheduler/scheduler_config.json")));
  EXPECT_EQ(scheduler.at("beta_schedule"), "linear");
  EXPECT_EQ(scheduler.at("prediction_type"), "epsilon");
  const auto sample = [&](const std::string& model, const std::string& out) {
    const auto result = run({"diffusion", "sample", model, "--count", "2", "--out", path(out)});
    EXPECT_EQ(result.code, 0) << result.error;
    return read_file(path(out));
  };
  const auto before = sample(run_, "before.png");
  fs::remove(tokenizer_);
  expect_failure(run({"diffusion", "sample", run_, "--out", path("x.png")}), 2,
                 {"tokenizer.safetensors", "--tokenizer"});
  EXPECT_EQ(sample(path("export"), "after.png"), before);
  expect_failure(run({"diffusion", "export", path("export"), "--out", path("export")}), 2,
                 {"exists already"});
}

TEST_F(CliDiffusion, BadInputIsOneLine) {
  expect_failure(train(), 2, {"diffusion.tokenizer is not set"});
  EXPECT_FALSE(fs::exists(run_));
  train_well();
  const auto sample = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"diffusion", "sample", run_, "--out", path("x.png")};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  expect_failure(sample({"--class", "1"}), 2, {"class 1", "no classes"});
  expect_failure(sample({"--class", "cat"}), 2, {"--class 'cat'"});
  expect_failure(sample({"--guidance", "2"}), 2, {"--guidance 2", "no classes"});
  expect_failure(sample({"--steps", "1001"}), 2, {"1001 steps", "1000 times"});
  expect_failure(sample({"--sampler", "ddpm", "--eta", "0.5"}), 2, {"eta"});
  expect_failure(sample({"--sampler", "euler"}), 2, {"euler"});
  expect_failure(sample({"--seed", "x"}), 2, {"--seed", "'x'", "a whole number"});
  expect_failure(sample({"--seed", "-1"}), 2, {"--seed", "'-1'", "a whole number"});
  auto other = tiny_tokenizer_config();
  other.model.latent_dim = 6;
  fs::create_directory(path("other"));
  const auto wide = write_tiny_tokenizer(path("other"), other).string();
  expect_failure(sample({"--tokenizer", wide}), 2, {"6 channels", "4"});
  other.model.latent_dim = 4;
  other.seed = 8;
  write_tiny_tokenizer(path("other"), other);
  expect_failure(sample({"--tokenizer", wide}), 2, {"not the tokenizer that"});
  expect_failure(run({"diffusion", "sample", tokenizer_, "--out", path("x.png")}), 2,
                 {"a tokenizer, where a diffusion model"});
  expect_failure(run({"eval", run_, "--data", "builtin:dead-leaves?size=16&count=2"}), 2,
                 {"a diffusion model"});
  expect_failure(run({"diffusion", "eval", run_, "--data", "nowhere", "--metrics", "psnr"}), 2,
                 {"psnr", "one by one"});
  EXPECT_FALSE(fs::exists(path("x.png")));
}

TEST_F(CliDiffusion, ClassesComeFromFolders) {
  for (const auto* name : {"cats", "dogs"}) {
    fs::create_directories(path(std::string("images/") + name));
    for (int i = 0; i < 8; ++i) {
      Image image{.width = 16, .height = 16, .pixels = {}};
      image.pixels.assign(16 * 16 * 3, static_cast<uint8_t>(30 * i));
      write_image(path(fmt::format("images/{}/{}.png", name, i)), image);
    }
  }
  const auto images = path("images");
  const auto trained = train({"diffusion.tokenizer=" + tokenizer_, "data.train=" + images,
                              "data.val=" + images, "diffusion.classes=2"});
  ASSERT_EQ(trained.code, 0) << trained.error;
  const auto guided = run({"diffusion", "sample", run_, "--class", "1", "--guidance", "2",
                           "--count", "2", "--out", path("dogs.png")});
  EXPECT_EQ(guided.code, 0) << guided.error;
  expect_failure(run({"diffusion", "sample", run_, "--class", "2", "--out", path("x.png")}), 2,
                 {"classes 0 to 1"});
  expect_failure(run({"diffusion", "train", path("tiny.yaml"), "diffusion.tokenizer=" + tokenizer_,
                      "data.train=" + images, "data.val=" + images, "diffusion.classes=1", "--run",
                      path("b")}),
                 2, {"is of class 1", "diffusion.classes is 1"});
}

TEST_F(CliDiffusion, LatentsKnowTheNamesOfTheirClasses) {
  for (const auto* folder : {"train/cats", "train/dogs", "val/dogs", "other/birds"}) {
    fs::create_directories(path(folder));
    Image image{.width = 16, .height = 16, .pixels = {}};
    image.pixels.assign(16 * 16 * 3, 90);
    for (int i = 0; i < 8; ++i) write_image(path(fmt::format("{}/{}.png", folder, i)), image);
  }
  ASSERT_EQ(run({"encode", tokenizer_, "--data", path("train"), "--out", path("latents")}).code, 0);
  const auto train_on = [&](const std::string& val) {
    fs::remove_all(run_);
    return train({"diffusion.tokenizer=" + tokenizer_, "diffusion.cached=" + path("latents"),
                  "data.val=" + path(val), "diffusion.classes=2"});
  };
  const auto trained = train_on("val");
  ASSERT_EQ(trained.code, 0) << trained.error;
  expect_contains(trained.out + trained.error, {"data.flip: ", "without effect: diffusion.cached"});
  expect_failure(train_on("other"), 2, {"data.val", "birds"});
  write_text(path("names.txt"), "birds\ncats\ndogs\n");
  ASSERT_EQ(run({"encode", tokenizer_, "--data", path("train"), "--out", path("named"), "--classes",
                 path("names.txt")})
                .code,
            0);
  expect_contains(run({"info", path("named"), "--json"}).out, {"birds"});
}

TEST_F(CliDiffusion, AKilledFolderIsCompleted) {
  train_well();
  const auto command = [&](const std::string& out) {
    return std::vector<std::string>{"diffusion", "sample",  run_,     "--count",
                                    "12",        "--steps", "2",      "--batch-size",
                                    "2",         "--out",   path(out)};
  };
  ASSERT_EQ(run(command("whole")).code, 0);
  int seen = 0;
  run_and_kill(command("killed"), path("log"), folder_.path(),
               [&](const std::string& name) { return name.ends_with(".png") && ++seen >= 5; });
  const auto result = run(command("killed"));
  if (result.code != 0) {  // it was finished before the kill came
    expect_failure(result, 2, {"killed"});
  }
  ASSERT_EQ(files_in(path("killed")), files_in(path("whole")));
  for (const auto& name : files_in(path("whole"))) {
    EXPECT_EQ(read_file(path("killed/" + name)), read_file(path("whole/" + name))) << name;
  }
}

TEST_F(CliDiffusion, AStoppedTarLeavesNothing) {
  train_well();
  fs::create_directory(path("out"));
  int changes = 0;  // the first ones are of a file that shows that one can be written
  const int status = run_and_kill(
      {"diffusion", "sample", run_, "--count", "1000000", "--steps", "2", "--out",
       path("out/s.tar")},
      path("log"), path("out"), [&](const std::string&) { return ++changes >= 8; }, SIGTERM);
  EXPECT_TRUE(WIFEXITED(status)) << status;
  const auto log = read_text(path("log"));
  EXPECT_EQ(WEXITSTATUS(status), 143) << log;
  expect_contains(log, {"nsvq: stopping ("});
  EXPECT_EQ(log.find("saving"), std::string::npos) << log;
  EXPECT_EQ(files_in(path("out")), std::vector<std::string>());
}

TEST_F(CliDiffusion, FidOfSamples) {
  WeightsStore store;
  store.add("inception", Inception());
  train_well();
  const auto json = path("figures.json");
  const auto result = run({"diffusion", "eval", run_, "--count", "3", "--steps", "2", "--data",
                           "builtin:dead-leaves?size=16&count=4", "--json", json});
  ASSERT_EQ(result.code, 0) << result.error;
  const auto figures = nlohmann::json::parse(read_text(json));
  EXPECT_GT(figures.at("fid").get<double>(), 0);
  EXPECT_EQ(figures.at("images"), 3);
  EXPECT_EQ(figures.at("reference_images"), 4);
  EXPECT_EQ(figures.at("steps"), 2);
  EXPECT_TRUE(figures.at("class").is_null());
  const auto few = run({"diffusion", "eval", run_, "--count", "3", "--steps", "2", "--data",
                        "builtin:dead-leaves?size=16&count=4", "--limit", "2", "--json"});
  ASSERT_EQ(few.code, 0) << few.error;
  EXPECT_EQ(nlohmann::json::parse(few.out).at("reference_images"), 2);
  const auto statistics = path("reference.npz");
  ASSERT_EQ(run({"images", "statistics", "--data", "builtin:dead-leaves?size=16&count=4", "--out",
                 statistics})
                .code,
            0);
  expect_failure(run({"diffusion", "eval", run_, "--data", statistics, "--limit", "2"}), 2,
                 {"--limit: " + statistics + " holds statistics"});
  expect_failure(run({"diffusion", "eval", run_, "--data", statistics, "--metrics", "recall"}), 2,
                 {statistics + ": recall needs images 'arr_0'"});
  expect_failure(run({"diffusion", "eval", run_, "--count", "3", "--metrics", "fid,precision",
                      "--data", "builtin:dead-leaves?size=16&count=4"}),
                 2, {"precision needs at least 4 images"});
}

TEST_F(CliDiffusion, FiguresByTimeOfTheNoise) {
  train_well();
  const auto probe = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {
        "diffusion", "probe", run_,           "--data", "builtin:dead-leaves?size=16&count=5",
        "--metrics", "psnr",  "--batch-size", "2"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  const auto result = probe({"--times", "0,400,999", "--json"});
  ASSERT_EQ(result.code, 0) << result.error;
  const auto figures = nlohmann::json::parse(result.out);
  EXPECT_EQ(figures.at("images"), 5);
  const auto& rows = figures.at("times");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[1].at("time"), 400);
  EXPECT_GT(rows[0].at("snr").get<double>(), rows[1].at("snr").get<double>());
  EXPECT_GT(rows[2].at("latent_error").get<double>(), rows[0].at("latent_error").get<double>());
  EXPECT_GT(rows[0].at("psnr").get<double>(), rows[2].at("psnr").get<double>());

  const auto tenths = probe({"--limit", "2", "--unquantised"});
  ASSERT_EQ(tenths.code, 0) << tenths.error;
  expect_contains(tenths.out, {"time   99", "time  999", "latent error", "psnr"});
  expect_failure(probe({"--times", "1000"}), 2, {"--times 1000", "times 0 to 999"});
  expect_failure(probe({"--times", "1,-1"}), 2, {"--times -1", "times 0 to 999"});
}

TEST_F(CliDiffusion, UnquantisedLatentsMakeOtherPictures) {
  train_well();
  const auto sample = [&](const std::string& out, std::vector<std::string> more) {
    std::vector<std::string> words = {"diffusion", "sample", run_,    "--count", "2",
                                      "--steps",   "2",      "--out", path(out)};
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_EQ(run(words).code, 0);
    return read_text(path(out));
  };
  EXPECT_NE(sample("codes.png", {}), sample("latents.png", {"--unquantised"}));
}

TEST_F(CliDiffusion, PrecisionOfSamplesAgainstImagesInAFile) {
  WeightsStore store;
  store.add("inception", Inception());
  train_well();
  const auto file = path("images.npz");
  write_text(file, npz_images(5, 16, 16, std::string(5 * 16 * 16 * 3, 'x')));
  const auto result =
      run({"diffusion", "eval", run_, "--count", "4", "--steps", "2", "--data", file, "--metrics",
           "fid,precision,recall", "--force", "--json", path("figures.json")});
  ASSERT_EQ(result.code, 0) << result.error;
  expect_contains(result.out, {"  precision: 4 images against 5 images of " + file + "\n"});
  const auto figures = nlohmann::json::parse(read_text(path("figures.json")));
  EXPECT_EQ(figures.at("reference_images"), 5);
  EXPECT_EQ(figures.at("precision"), 0) << "the file's images are all one";
  EXPECT_GT(figures.at("fid").get<double>(), 0);
}

/// Batches are the same for every number of processes, and with them their images, to the bits.
TEST_F(CliDiffusion, RanksSampleWhatOneProcessDoes) {
  train_well();
  const auto sample = [&](const std::string& out, const std::string& ranks) {
    run_program(
        fmt::format("sample '{}' --count 7 --batch-size 2 --steps 3 --device cpu --out '{}' {}",
                    run_, path(out), ranks));
  };
  sample("one", "");
  sample("two", "--gpus 2");
  sample("one.png", "");
  sample("three.png", "--gpus 3");
  EXPECT_EQ(read_file(path("three.png")), read_file(path("one.png")));
  ASSERT_EQ(files_in(path("two")), files_in(path("one")));
  for (const auto& name : files_in(path("one"))) {
    EXPECT_EQ(read_file(path("two/" + name)), read_file(path("one/" + name))) << name;
  }
}

TEST_F(CliDiffusion, RanksJudgeAsOneProcessDoes) {
  WeightsStore store;
  store.add("inception", Inception());
  train_well();
  const auto fid = [&](const std::string& ranks) {
    const auto json = path("figures.json");
    run_program(
        fmt::format("eval '{}' --count 5 --batch-size 2 --steps 2 --device cpu --force --json '{}' "
                    "--data 'builtin:dead-leaves?size=16&count=5' {}",
                    run_, json, ranks));
    const auto figures = nlohmann::json::parse(read_text(json));
    EXPECT_EQ(figures.at("images"), 5);
    EXPECT_EQ(figures.at("reference_images"), 5);
    return figures.at("fid").get<double>();
  };
  const double one = fid("");
  EXPECT_NEAR(fid("--gpus 2"), one, 1e-4 * one);
}

TEST_F(CliDiffusion, LatentsAreCachedAndLearned) {
  const auto cache = [&](const std::string& batch) {
    return run({"encode", tokenizer_, "--data", "builtin:dead-leaves?size=16&count=24", "--out",
                path("latents"), "--shard-size", "8", "--batch-size", batch});
  };
  const auto cached = cache("8");
  ASSERT_EQ(cached.code, 0) << cached.error;
  expect_contains(cached.out, {"latents 4x4x4 of 24 images in 3 shards"});
  expect_failure(cache("4"), 2, {"was made with other settings: batch size 8 there, 4 now"});
  EXPECT_EQ(cache("8").out, cached.out);
  expect_contains(run({"info", path("latents")}).out,
                  {"4x4x4", "images", "24", "shards", "no names"});
  const auto trained = train({"diffusion.tokenizer=" + tokenizer_,
                              "diffusion.cached=" + path("latents"), "data.train=nowhere"});
  EXPECT_EQ(trained.code, 0) << trained.error;
  expect_failure(run({"encode", run_, "--data", "builtin", "--out", path("x")}), 2,
                 {"a diffusion model"});
}

TEST_F(CliDiffusion, LatentsKeepTheShardsOfTheirFolder) {
  const auto cache = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"encode", tokenizer_,
                                      "--data", "builtin:dead-leaves?size=16&count=24",
                                      "--out",  path("latents")};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  const auto made = cache({"--shard-size", "10", "--batch-size", "5"});
  expect_contains(made.out, {"24 images in 3 shards"});
  const auto again = cache({});
  EXPECT_EQ(again.code, 0) << again.error;
  EXPECT_EQ(again.out, made.out);
  expect_failure(cache({"--shard-size", "5"}), 2, {"shard size 10 there, 5 now"});
}

TEST_F(CliDiffusion, RunsAndInfoKnowThem) {
  train_well();
  const auto listed = run({"runs", run_});
  EXPECT_EQ(listed.code, 0);
  expect_contains(listed.out, {"finished", "3 of 3"});
  EXPECT_EQ(listed.out.find("damaged"), std::string::npos) << listed.out;
  const auto info = run({"info", run_});
  EXPECT_EQ(info.code, 0);
  expect_contains(
      info.out, {"unet         ", " parameters", "tokenizer    " + tokenizer_, "prediction: eps"});
  expect_contains(info.out.substr(info.out.find("last evaluation")), {"\n  images ", "\n  loss "});
}

TEST_F(CliDiffusion, HelpSaysWhichMetricsJudgeSamples) {
  const auto help = run({"help", "diffusion", "eval"}).out;
  expect_contains(help, {"fid, sfid, fd-vgg16"});
  EXPECT_EQ(help.find("psnr"), std::string::npos) << help;
}

TEST_F(CliDiffusion, SettingsArePrinted) {
  const auto reference = run({"diffusion", "config", "--reference"});
  EXPECT_EQ(reference.code, 0);
  expect_contains(reference.out, {"diffusion.min_snr_gamma", "unet.width", "sample.guidance"});
  const auto printed = run({"diffusion", "config", path("tiny.yaml"), "unet.width=12"});
  EXPECT_EQ(printed.code, 0);
  EXPECT_EQ(parse_config<DiffusionConfig>(printed.out, "printed").unet.width, 12);
}

}  // namespace
}  // namespace nsvq
