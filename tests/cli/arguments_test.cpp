// What commands say of their arguments and settings, and of the machine.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "nsvq/cli/program/command.h"
#include "nsvq/cli/program/command_line.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "tests/cli/kill.h"
#include "tests/cli/run.h"
#include "tests/environment.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

TEST(Commands, AndOptionsThatAreUnknownAreNamed) {
  EXPECT_EQ(run({"help"}).out, run({"--help"}).out);
  EXPECT_EQ(run({"help", "train"}).out, run({"train", "--help"}).out);
  EXPECT_EQ(run({"help", "bench", "step"}).out, run({"bench", "step", "--help"}).out);
  expect_failure(run({"help", "trian"}), 2, {"trian", "did you mean 'train'"});
  expect_failure(run({"train", "--foo"}), 2, {"unknown option --foo", "nsvq help train"});
  expect_failure(run({"train", "x.yaml", "--rum=a"}), 2,
                 {"unknown option --rum; did you mean '--run'?"});
  expect_failure(run({"images"}), 2,
                 {"a command is missing (there are: compare, statistics, index) (nsvq help"});
  expect_failure(run({"images", "compare", "--foo"}), 2, {"--foo", "(nsvq help images compare)"});
  expect_failure(run({"train", "x.yaml", "--device", "cuda"}), 2, {"device=cuda"});
  const auto gone = run({"tokens", "merge", "a"});
  expect_failure(gone, 2, {"is gone", "--part"});
  EXPECT_LE(gone.error.size(), 101u) << gone.error;
  expect_failure(run({"train", "x.yaml", "--epochs", "3"}), 2,
                 {"unknown option --epochs; a setting is a word without dashes: train.epochs=3"});
  expect_failure(run({"eval", "m", "--batch", "4"}), 2,
                 {"unknown option --batch; did you mean '--batch-size'?"});
  EXPECT_EQ(run({"xyzzy"}).error, "nsvq: unknown command 'xyzzy' (nsvq help lists all)\n");
  EXPECT_EQ(run({"compare", "--help"}).out.find("x 2"), std::string::npos) << "three work too";
}

TEST(Arguments, OptionsOfOtherProgramsLeadToTheSetting) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> rows = {
      {{"train", "x.yaml", "--device", "cuda"}, "device=cuda"},
      {{"train", "x.yaml", "--device=gpu"}, "device=cuda"},
      {{"train", "--data", "my photos", "x.yaml"}, "'data.train=my photos'"},
      {{"train", "x.yaml", "--batch-size", "4", "seed=1"}, "train.batch_size=4"},
      {{"train", "x.yaml", "--learning-rate=1e-3"}, "optimizer.lr=1e-3"},
      {{"train", "x.yaml", "--val", "a"}, "data.val=a"},
      {{"train", "x.yaml", "--seed", "train.epochs=3"}, "seed=VALUE"},
      {{"config", "x.yaml", "--flip"}, "data.flip=true"},
      {{"diffusion", "train", "x.yaml", "--lr", "3"}, "optimizer.lr=3"}};
  for (const auto& [words, setting] : rows) {
    expect_failure(run(words), 2, {"; a setting is a word without dashes: " + setting + " (nsvq"});
  }
  expect_failure(run({"train", "x.yaml", "--elephant", "3"}), 2,
                 {"unknown option --elephant; settings are words such as train.epochs=10"});
}

TEST(Arguments, ErrorsAreInPlainWords) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> rows = {
      {{"tokenize", "m", "--data", "d", "--out"}, "--out: its value is missing (nsvq help tok"},
      {{"tokenize", "m", "d", "--out", "x"}, "'d' is a word too many; images are named by --data"},
      {{"export", "m", "n", "--out", "x"}, "'n' is a word too many (nsvq help export)"},
      {{"export", "m", "--out", "x", "--out", "y"}, "--out is given more than once (nsvq"},
      {{"eval", "m", "--data", "d", "--limit", "x"},
       "--limit: 'x' is not a whole number from 1 to 1000000000 (nsvq help eval)"},
      {{"eval", "m", "--data", "d", "--device", "gpu"},
       "--device: 'gpu' is none of auto, cpu, cuda"},
      {{"eval", "m", "--data", "d", "--best=maybe"}, "--best: 'maybe' is no value for it (nsvq"},
      {{"compare", "m", "--data", "d"}, "nsvq compare: give at least two models"},
      {{"export", "m", "--out", "x", "a\nb"}, "is a word too many"},
      {{"eval", "--data", "a"}, "MODEL is required before --data, which takes all words"},
      {{"eval", "m", "--data", "d", "--device", std::string(120'000, 'x')}, "--device: 'xxx"}};
  for (const auto& [words, text] : rows) {
    const auto result = run(words);
    expect_failure(result, 2, {text});
    EXPECT_LE(result.error.size(), 130u) << result.error;
  }
}

TEST(OldSpellings, WorkAndSayTheNewOnes) {
  const std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>> rows = {
      {{"metrics", "a", "b"}, {"images", "compare", "a", "b"}},
      {{"statistics", "--out", "x"}, {"images", "statistics", "--out", "x"}},
      {{"latents", "m"}, {"encode", "m"}},
      {{"metrics", "--as=simvq"}, {"images", "compare", "--conventions=simvq"}},
      {{"compare", "a", "--samples", "4", "--columns"},
       {"compare", "a", "--pictures", "4", "--transpose"}},
      {{"diffusion", "eval", "--reference", "d"}, {"diffusion", "eval", "--data", "d"}},
      {{"import", "f", "--like", "r", "--set", "a=1", "--set=b=2"},
       {"import", "f", "--recipe", "r", "a=1", "b=2"}},
      {{"weights", "import", "f", "--as", "vgg16"}, {"weights", "import", "f", "--as", "vgg16"}}};
  for (const auto& [old, now] : rows) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(with_present_spellings(old), now);
    const auto said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(said.find("is now") != std::string::npos, old != now) << said;
  }
}

TEST(Commands, AndTheirHelpThatAreNotThere) {
  expect_failure(run({"help", "diffusion", "trian"}), 2, {"'trian'", "did you mean 'train'"});
  expect_failure(run({"tokens", "verfy", "x"}), 2, {"'verfy'", "did you mean 'verify'"});
}

// The words of `nsvq train "$RECIPE" --run "$RUN"` with variables that are not set.
TEST(Arguments, EmptyWordsAreRefused) {
  expect_failure(run({"train", ""}), 2, {"word 2 of the command is empty"});
  expect_failure(run({"train", "x.yaml", "--run", ""}), 2, {"--run is empty"});
  expect_failure(run({"eval", "m", "--data", "d", "--metrics="}), 2, {"--metrics is empty"});
}

TEST(Config, SettingsOfTheOtherProgramAreNamedSo) {
  const TemporaryFolder folder;
  const auto recipe = (folder / "tiny.yaml").string();
  write_text(recipe, to_yaml(tiny_config()));
  expect_failure(run({"config", recipe, "unet.width=8"}), 2,
                 {"'unet.width' is a setting of latent diffusion (nsvq diffusion)"});
  expect_failure(run({"diffusion", "config", recipe}), 2,
                 {"is a setting of a tokenizer (nsvq train)"});
}

TEST(Version, NamesCommitTorchAndProcessor) {
  expect_contains(run({"--version"}).out, {"nsvq ", "(commit ", "torch 2.", "CUDA", "CPU: "});
}

TEST(Doctor, SaysWhatTheMachineOffers) {
  const auto result = run({"doctor"});
  EXPECT_EQ(result.code, 0) << result.error;
  expect_contains(result.out, {"torch ", "GPU ", "free disk", "open files", "threads", "lpips-vgg",
                               "training and tokenising can run"});
}

TEST(Doctor, CountsTheThreadsOfTraining) {
  for (const auto& [asked, said] : {std::pair{"1", "1 thread"}, {"3", "3 threads"}}) {
    const Environment openmp("OMP_NUM_THREADS", asked);
    const auto out = run({"doctor"}).out;
    const auto cpu = out.substr(out.find("CPU  "));
    expect_contains(cpu.substr(0, cpu.find('\n')), {std::string(", ") + said + ","});
    const auto last = out.substr(out.find("can run on"));
    if (last.find("CPU") != std::string::npos) expect_contains(last, {said});
    const auto json = nlohmann::json::parse(run({"doctor", "--json"}).out);
    EXPECT_EQ(json.at("cpu").at("threads").dump(), asked);
    EXPECT_GE(json.at("cpu").at("used_by_others").get<double>(), 0);
    if (said == std::string("1 thread")) EXPECT_EQ(out.find("other processes"), std::string::npos);
  }
}

TEST(Doctor, StartsNoHundredThousandThreads) {
  const Environment openmp("OMP_NUM_THREADS", "100000");
  const TemporaryFolder folder;
  Program program({"doctor"}, folder / "log");
  EXPECT_EQ(program.wait(), 0);
  expect_contains(read_text(folder / "log"), {"OMP_NUM_THREADS=100000", "can run on"});
}

TEST(Doctor, WorksWithoutAHome) {
  const Environment home("HOME", std::nullopt), weights("NSVQ_WEIGHTS", std::nullopt),
      cache("NSVQ_CACHE", std::nullopt), xdg("XDG_CACHE_HOME", std::nullopt);
  const auto result = run({"doctor"});
  EXPECT_EQ(result.code, 0) << result.error;
}

// The words of `nsvq train recipe.yaml train.epochs 3`.
TEST(Config, ASettingInTwoWordsIsJoinedInTheError) {
  const TemporaryFolder folder;
  const auto recipe = (folder / "tiny.yaml").string();
  write_text(recipe, to_yaml(tiny_config()));
  expect_failure(run({"config", recipe, "train.epochs", "3"}), 2,
                 {"expected key=value", "did you mean train.epochs=3?"});
  expect_failure(run({"config", recipe, "train.epochs"}), 2, {"got 'train.epochs'"});
}

TEST(Config, RefusesWhatTrainingRefuses) {
  const TemporaryFolder folder;
  const auto recipe = (folder / "tiny.yaml").string();
  write_text(recipe, to_yaml(tiny_config()));
  expect_failure(run({"config", recipe, "quantizer.type=fsq", "model.latent_dim=8"}), 2,
                 {"quantizer.fsq.levels"});
  expect_failure(run({"config", recipe, "quantizer.type=none", "schedule.freeze=plateau"}), 2,
                 {"schedule.freeze"});
  expect_failure(run({"config", recipe, "quantizer.type=lfq", "quantizer.lfq.bits=8",
                      "replacement.policy=copy"}),
                 2, {"replacement.policy"});
  expect_failure(run({"config", recipe, "train.metrics=[psrn]"}), 2, {"train.metrics", "psnr"});
  expect_failure(run({"config", recipe, "adversarial.weight=0.1", "adversarial.layers=4"}), 2,
                 {"adversarial.layers"});
  expect_contains(run({"config", "--reference"}).out, {"lpips-vgg|"});
}

TEST(Config, NamesMissingWeightsAsTrainingDoes) {
  const TemporaryFolder folder;
  const Environment none("NSVQ_WEIGHTS", folder / "none");
  const auto recipe = (folder / "tiny.yaml").string();
  write_text(recipe, to_yaml(tiny_config()));
  for (const std::string setting :
       {"loss.perceptual=1", "train.metrics=[psnr,rfid]", "train.metrics=[lpips-alex]"}) {
    const auto printed = run({"config", recipe, setting});
    expect_failure(printed, 2, {"nsvq weights get"});
    expect_contains(printed.out, {"optimizer:"});
    EXPECT_EQ(run({"train", recipe, setting, "--run", folder / "run"}).error, printed.error);
  }
}

TEST(Config, NamesMissingFilesAsTrainingDoes) {
  const TemporaryFolder folder;
  const auto recipe = (folder / "tiny.yaml").string(), none = (folder / "none").string();
  write_text(recipe, to_yaml(tiny_config()));
  const std::string other = "quantizer.type=vqgan_lc";
  const std::vector<std::vector<std::string>> settings = {
      {"train.init_from=" + none}, {other}, {other, "quantizer.features.file=" + none}};
  for (const auto& given : settings) {
    std::vector<std::string> config = {"config", recipe}, train = {"train", recipe};
    config.insert(config.end(), given.begin(), given.end());
    train.insert(train.end(), given.begin(), given.end());
    train.insert(train.end(), {"--run", folder / "run"});
    const auto printed = run(config);
    expect_failure(printed, 2, {given.back().substr(0, given.back().find('='))});
    expect_contains(printed.out, {"optimizer:"});
    EXPECT_EQ(run(train).error, printed.error);
  }
  // A run has read its files when it began.
  write_text(folder / "run/config.yaml", to_yaml(tiny_config()));
  EXPECT_EQ(run({"config", folder / "run", "train.init_from=" + none}).code, 0);
}

}  // namespace
}  // namespace nsvq
