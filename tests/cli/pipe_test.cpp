// Commands on `pipe:` sources.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "nsvq/io/files/file.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/tokens/token_manifest.h"
#include "tests/cli/kill.h"
#include "tests/cli/model_file.h"
#include "tests/cli/run.h"
#include "tests/data/piped_tars.h"
#include "tests/environment.h"
#include "tests/held_pipe.h"
#include "tests/train/run_traces.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;
using testing_files::PipedTars;

class Pipe : public testing::Test {
 protected:
  Pipe() {
    auto config = tiny_config();
    config.data.train = pipe_;
    config.data.val = pipe_;
    config.data.shuffle_buffer = 6;
    config.data.retries = 0;
    write_text(recipe_, to_yaml(config));
    write_model_file(model_, config);
  }

  void index() { EXPECT_EQ(run({"images", "index", pipe_}).code, 0); }
  Result train(const std::string& run_name, std::vector<std::string> more) {
    std::vector<std::string> words = {"train", recipe_, "--run", folder(run_name)};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  std::string folder(const std::string& name) const { return tars_.folder().text(name); }
  const PipedTars tars_{{9, 6, 8, 7}};
  const std::string pipe_ = "pipe:cat " + folder("{0..3}.tar"), tar_ = folder("{0..3}.tar");
  const std::string recipe_ = folder("tiny.yaml"), model_ = folder("model.safetensors");
};

TEST_F(Pipe, MustBeIndexedFirst) {
  expect_failure(run({"tokenize", model_, "--data", pipe_, "--out", folder("tokens")}), 2,
                 {"pipe:cat", "4 of 4 commands", "nsvq images index"});
  const auto result = run({"images", "index", pipe_});
  EXPECT_EQ(result.code, 0) << result.error;
  expect_contains(result.out, {"30 images"});
}

TEST_F(Pipe, GivesTheTokensAndFiguresOfTheTars) {
  index();
  for (const auto& [name, data] : {std::pair("a", tar_), {"b", pipe_}}) {
    const auto result = run({"tokenize", model_, "--data", data, "--out", folder(name),
                             "--shard-size", "8", "--batch-size", "4", "--device", "cpu"});
    ASSERT_EQ(result.code, 0) << result.error;
  }
  const auto manifest = read_token_manifest(folder("a"));
  EXPECT_EQ(manifest.shards.size(), 4U);
  for (const auto& shard : manifest.shards) {
    EXPECT_EQ(read_text(folder("a/" + shard.file)), read_text(folder("b/" + shard.file)));
  }
  const auto figures = [&](const std::string& data) {
    const auto out =
        run({"eval", model_, "--data", data, "--on-training-images", "--device", "cpu"}).out;
    return out.substr(out.find('\n'));  // the first line names the data
  };
  EXPECT_EQ(figures(pipe_), figures(tar_));
}

TEST_F(Pipe, AKilledRunGoesOnWithTheSameBatches) {
  index();
  const auto runs = folder("runs");
  fs::create_directory(runs);
  const auto command = [&](const fs::path& out) -> std::vector<std::string> {
    return {"train", recipe_, "--run", out.string(), "checkpoint.every_steps=1", "train.epochs=3"};
  };
  kill_and_compare(runs, command, expect_same_runs);
}

TEST_F(Pipe, StoredCommandsAreRunOnlyIfAllowed) {
  index();
  ASSERT_EQ(train("run", {"train.steps=2"}).code, 0);
  const auto stored = folder("run");
  const std::vector<std::string> refused = {"pipe:cat", "--allow-pipe"};
  expect_failure(run({"train", stored, "--resume", "train.steps=4"}), 2, refused);
  expect_failure(run({"train", stored + "/config.yaml", "--run", folder("other")}), 2, refused);
  write_text(folder("child.yaml"), "base: run/config.yaml\ntrain.steps: 3\n");
  expect_failure(run({"train", folder("child.yaml"), "--run", folder("other")}), 2, refused);
  write_text(folder("mine.yaml"), "train.steps: 3\n");
  write_text(folder("child.yaml"), "base: [mine.yaml, run/config.yaml]\n");
  expect_failure(run({"train", folder("child.yaml"), "--run", folder("other")}), 2, refused);
  // Only the key that the user names is the user's.
  expect_failure(run({"train", stored, "--resume", "train.steps=4", "data.train=" + pipe_}), 2,
                 refused);
  fs::remove(folder("run/config.yaml"));  // then the settings are the checkpoint's
  expect_failure(run({"train", stored, "--resume", "train.steps=4"}), 2, refused);
  const auto named = run(
      {"train", stored, "--resume", "train.steps=4", "data.train=" + pipe_, "data.val=" + pipe_});
  EXPECT_EQ(named.code, 0) << named.error;
  const auto allowed = run({"train", stored, "--resume", "--allow-pipe", "train.steps=6"});
  EXPECT_EQ(allowed.code, 0) << allowed.error;
}

TEST_F(Pipe, AFailingCommandEndsTheRun) {
  index();
  fs::remove(tars_.paths()[2]);
  const auto result = train("run", {});
  EXPECT_EQ(result.code, 3);
  expect_contains(result.error, {"pipe:cat", "2.tar", "exit status 1", "No such file"});
}

/// `index` ends at once; its commands end when they write to the closed pipe.
TEST_F(Pipe, NoCommandThatWritesIsLeftAfterASignal) {
  index();
  for (const int number : {SIGINT, SIGKILL}) {
    HeldPipe pipe(folder(fmt::format("pipe-{}", number)));
    Program program({"images", "index", "pipe:" + pipe.endless_zeros()}, folder("log"));
    pipe.await_start();
    program.kill(number);
    EXPECT_TRUE(WIFSIGNALED(program.wait()));
    pipe.await_end();
  }
}

TEST_F(Pipe, NoProcessIsLeftAfterTrainingIsStopped) {
  write_text(folder("script"), "cat " + tars_.paths()[0].string());
  const auto waiting = "pipe:sh " + folder("script");
  ASSERT_EQ(run({"images", "index", waiting}).code, 0);
  index();
  // All of the batch comes, and the command stays: the run stops while it is there.
  HeldPipe pipe(folder("pipe"));
  write_text(folder("script"),
             "head -c -1024 " + tars_.paths()[0].string() + "; " + pipe.endless_command());
  Program program({"train", recipe_, "--run", folder("run"), "data.train=" + waiting,
                   "schedule.epoch_steps=1", "train.epochs=100000"},
                  folder("log"));
  pipe.await_start();
  program.kill(SIGINT);
  const int status = program.wait();
  pipe.await_end();
  EXPECT_TRUE(WIFEXITED(status) || WIFSIGNALED(status));
}

TEST_F(Pipe, IndexNamesTheVariableThatIsRead) {
  EXPECT_EQ(run({"images", "index", pipe_}).error.find("NSVQ_INDEX_CACHE"), std::string::npos);
  const Environment ignored("NSVQ_INDEX_CACHE", folder("lists"));
  const auto result = run({"images", "index", "--again", "--data", pipe_});
  EXPECT_EQ(result.code, 0) << result.error;
  expect_contains(result.error, {"NSVQ_INDEX_CACHE is not read", "XDG_CACHE_HOME"});
  EXPECT_FALSE(fs::exists(folder("lists")));
}

TEST_F(Pipe, CommandsThatMissTheListsNameTheVariableToo) {
  const Environment ignored("NSVQ_INDEX_CACHE", folder("lists"));
  const auto result = run({"tokenize", model_, "--data", pipe_, "--out", folder("tokens")});
  EXPECT_EQ(result.code, 2);
  expect_contains(result.error, {"NSVQ_INDEX_CACHE is not read", "nsvq images index"});
}

TEST(ImagesIndex, SaysWhereThereIsNothingToList) {
  const auto result = run({"images", "index", "--data", "builtin:dead-leaves?size=16&count=3"});
  EXPECT_EQ(result.code, 0) << result.error;
  expect_contains(result.out, {"3 images; nothing was written", "pipe:"});
}

}  // namespace
}  // namespace nsvq
