// Signals to real training processes, processes without standard streams, and how a run is named.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "nsvq/cli/output/stdout.h"
#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/core/text.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/runs/checkpoint.h"
#include "nsvq/runs/config.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/tokenizer/open_model.h"
#include "tests/cli/kill.h"
#include "tests/cli/run.h"
#include "tests/train/run_traces.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

/// What a shell makes of a line.
std::string shell_says(const std::string& line) {
  std::string said;
  FILE* pipe = ::popen(line.c_str(), "r");
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) said += static_cast<char>(c);
  ::pclose(pipe);
  return said;
}

class Stop : public testing::Test {
 protected:
  void SetUp() override {
    auto config = tiny_config();
    config.train.epochs = 100000;  // until the signal
    write_text(recipe_, to_yaml(config));
  }

  TemporaryFolder folder_;
  fs::path recipe_ = folder_ / "tiny.yaml", run_ = folder_ / "it's a $(run)";
  std::string log_ = folder_ / "log";
};

TEST_F(Stop, ASignalSavesTheRunAndSaysSoByTheExitCode) {
  const std::vector<std::string> command = {"train", recipe_.string(), "--run", run_.string()};
  int64_t step = 0;
  for (const auto& [number, code] : {std::pair(SIGINT, 130), {SIGTERM, 143}, {SIGHUP, 143}}) {
    const auto report_written = [](const std::string& name) {
      return name.find("report.html") != std::string::npos;
    };
    const int status = run_and_kill(command, log_, folder_.path(), report_written, number);
    EXPECT_TRUE(WIFEXITED(status)) << status;
    EXPECT_EQ(WEXITSTATUS(status), code);
    const auto state = load_run_state(list_checkpoints(run_).back());
    EXPECT_GT(state.step, step) << "the same command went on";
    step = state.step;
  }
  const auto log = read_text(log_);
  const auto line = log.substr(log.rfind("to resume:\n") + 11);
  EXPECT_NE(line.find(" --resume\n"), std::string::npos) << line;
  EXPECT_EQ(
      shell_says("for word in " + line.substr(0, line.find('\n')) + "; do echo \"$word\"; done"),
      fmt::format("{}\ntrain\n{}\n--resume\n", NSVQ_PROGRAM, run_.string()));
}

TEST_F(Stop, ClosedStandardStreamsDoNotBecomeFiles) {
  auto config = tiny_config();
  config.train.epochs = 1;
  write_text(recipe_, to_yaml(config));
  for (const auto& closed : std::vector<std::vector<int>>{{2}, {1, 2}, {0, 1, 2}}) {
    const auto run = folder_ / fmt::format("run-{}", closed.size());
    const std::vector<std::string> command = {"train", recipe_.string(), "--run", run.string()};
    EXPECT_EQ(Program(command, log_, closed).wait(), 0);
    EXPECT_EQ(fs::file_size(run / ".lock"), 0u);
    for (const auto& entry : fs::recursive_directory_iterator(run)) {
      if (!entry.is_regular_file()) continue;
      const auto text = read_text(entry.path());
      for (const auto* printed : {"to train on", "codes used", "report: "}) {
        EXPECT_EQ(text.find(printed), std::string::npos) << entry.path() << " has " << printed;
      }
    }
    EXPECT_FALSE(timeless_metrics(run).empty());
  }
}

/// What print_last_words does in a process of its own whose standard output is `descriptor`.
bool last_words_fail(int descriptor) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(descriptor, STDOUT_FILENO);
    try {
      print_last_words("stopped\n");
    } catch (const RunError&) {
      ::_exit(3);
    }
    ::_exit(0);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status != 0;
}

TEST(LastWords, MayGoToATerminalThatWasClosed) {
  const int screen = ::posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_EQ(::grantpt(screen), 0);
  ASSERT_EQ(::unlockpt(screen), 0);
  const int terminal = ::open(::ptsname(screen), O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  ::close(screen);
  EXPECT_FALSE(last_words_fail(terminal));
  ::close(terminal);
  const int full = ::open("/dev/full", O_WRONLY);
  EXPECT_TRUE(last_words_fail(full));
  ::close(full);
}

TEST(ShellWord, ComesBackFromTheShell) {
  for (const std::string& text : {"plain-1.0_x/y", "it's", "$(touch x) `y` $HOME", "a  b", "",
                                  "\"\\", "*?[a]{b,c}", "~", "#", "new\nline", "-n!"}) {
    EXPECT_EQ(shell_says("printf '%s' " + shell_word(text)), text);
  }
  EXPECT_EQ(shell_word("runs/photos-2"), "runs/photos-2");
}

TEST(ShellWord, OfAPrintedCommandIsFitForATerminal) {
  for (const std::string& text : {"new\nline", "a\x1b[31mb", "tab\there", "it's \\ \a7",
                                  "\xff"
                                  "1",
                                  "\u202eabc", "\x7f"}) {
    const auto word = shown_shell_word(text);
    EXPECT_EQ(printable(word), word);
    EXPECT_EQ(word.find('\t'), std::string::npos);
    EXPECT_EQ(shell_says("bash -c " + shell_word("printf %s " + word)), text);
  }
  for (const std::string& text : {"runs/photos-2", "it's a $(run)", "caf\u00e9"}) {
    EXPECT_EQ(shown_shell_word(text), shell_word(text));
  }
}

TEST_F(Stop, ARunIsTakenWhereARecipeIs) {
  auto config = tiny_config();
  config.train.epochs = 2;
  write_text(recipe_, to_yaml(config));
  ASSERT_EQ(run({"train", recipe_.string(), "train.epochs=1", "--run", run_.string()}).code, 0);
  config.train.epochs = 1;
  EXPECT_EQ(run({"config", run_.string()}).out, to_yaml(config));
  const auto longer = run({"train", run_.string() + "/", "--resume", "train.epochs=2"});
  EXPECT_EQ(longer.code, 0) << longer.error;
  EXPECT_EQ(load_run_config(run_).train.epochs, 2);
  EXPECT_TRUE(load_run_state(list_checkpoints(run_).back()).finished);
  fs::create_directories(folder_ / "empty");
  expect_failure(run({"config", (folder_ / "empty").string()}), 2, {"empty", "holds no run"});
  expect_failure(run({"train", (folder_ / "empty").string()}), 2,
                 {"empty", "holds no run", "name a recipe and data.train="});
}

TEST_F(Stop, TheBestCheckpointIsOpenedByName) {
  auto config = tiny_config();
  config.train.epochs = 2;
  config.checkpoint.keep = 2;
  write_text(recipe_, to_yaml(config));
  const std::string data = "builtin:dead-leaves?size=16&count=7&seed=1";
  ASSERT_EQ(run({"train", recipe_.string(), "--run", run_.string()}).code, 0);
  expect_failure(run({"eval", run_.string(), "--best", "--data", data}), 2,
                 {"no best checkpoint", "checkpoint.keep_best"});
  const auto other = run_.string() + "-2";
  expect_failure(run({"train", recipe_.string(), "checkpoint.keep_best=lpips", "--run", other}), 2,
                 {"checkpoint.keep_best", "train.metrics"});
  ASSERT_EQ(run({"train", recipe_.string(), "checkpoint.keep_best=psnr", "--run", other}).code, 0);
  const auto evaluated = run({"eval", other, "--best", "--data", data});
  EXPECT_EQ(evaluated.code, 0) << evaluated.error;
  expect_contains(evaluated.out, {"checkpoints/step-"});
  EXPECT_EQ(run({"info", other + "/checkpoints/best"}).code, 0);
  write_text(other + "/checkpoints/best", "step-3\n");
  const auto exported = (folder_ / "best.safetensors").string();
  ASSERT_EQ(run({"export", other, "--best", "--out", exported}).code, 0);
  const auto hash_of = [](const std::string& model) {
    return nlohmann::json::parse(run({"info", model, "--json", "-"}).out).at("sha256");
  };
  EXPECT_EQ(hash_of(exported), hash_of(other + "/checkpoints/step-3"));
  EXPECT_NE(hash_of(exported), hash_of(other));
  const auto tokens = (folder_ / "tokens").string(), pictures = (folder_ / "pictures").string();
  ASSERT_EQ(run({"tokenize", other, "--best", "--data", data, "--out", tokens}).code, 0);
  EXPECT_EQ(run({"detokenize", other, "--tokens", tokens, "--out", pictures}).code, 2)
      << "tokens of another model";
  EXPECT_EQ(run({"detokenize", other, "--best", "--tokens", tokens, "--out", pictures}).code, 0);
  write_text(other + "/checkpoints/best", "../../elsewhere\n");
  expect_failure(run({"eval", other, "--best", "--data", data}), 2, {"names no checkpoint"});
  expect_failure(run({"export", run_.string(), "--best", "--out", folder_ / "other.safetensors"}),
                 2, {"no best checkpoint"});
}

TEST_F(Stop, NamesThatLackAPartAreCompletedInTheError) {
  const auto before = fs::current_path();
  fs::current_path(folder_.path());
  fs::create_directories("runs/photos/checkpoints");
  const auto of_run = run({"info", "photos"}), of_folder = run({"info", "runs"});
  const auto of_recipe = run({"train", "tiny"}), unknown = run({"info", "birds"});
  fs::current_path(before);
  expect_failure(of_run, 2, {"photos: no such run", "did you mean runs/photos?"});
  expect_failure(of_folder, 2, {"runs: a folder of runs", "nsvq runs runs"});
  expect_failure(of_recipe, 2, {"tiny: cannot read this recipe", "did you mean tiny.yaml?"});
  EXPECT_EQ(unknown.error.find("did you mean"), std::string::npos) << unknown.error;
}

TEST_F(Stop, WhoReadsTheLogMayEndFirst) {
  auto config = tiny_config();
  config.train.epochs = 3;
  write_text(recipe_, to_yaml(config));
  const auto run_folder = (folder_ / "piped").string();
  const auto command =
      fmt::format("'{}' train {} --run {}", NSVQ_PROGRAM, recipe_.string(), run_folder);
  const auto code_of = [](const std::string& line) {
    return shell_says("bash -c " + shell_word(line));
  };
  EXPECT_EQ(code_of(command + " 2>&1 | head -n 1 >/dev/null; echo ${PIPESTATUS[0]}"), "0\n");
  expect_contains(run({"runs", run_folder}).out, {"finished"});
  // The run is finished: its table alone is printed.
  EXPECT_EQ(code_of(command + " --resume 2>/dev/null >/dev/full; echo $?"), "3\n");
  EXPECT_EQ(code_of(command + " --resume 2>/dev/null | true; echo ${PIPESTATUS[0]}"), "0\n");
}

}  // namespace
}  // namespace nsvq
