// Plans of experiments: which runs there are, in which order and folders, and what is refused.

#include "nsvq/experiments/plan/make_plan.h"

#include <gtest/gtest.h>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/experiments/plan/estimate.h"
#include "nsvq/experiments/plan/next_command.h"
#include "nsvq/experiments/run/reproduce.h"
#include "nsvq/experiments/spec/experiment.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/files/folder_checksums.h"
#include "nsvq/nn/features/resnet50.h"
#include "nsvq/runs/checkpoint.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/experiments/small_experiment.h"
#include "tests/weights_store.h"

namespace nsvq {
namespace {

class PlanTest : public testing::Test {
 protected:
  PlanTest() {
    write_text(folder_ / "vq.yaml", "quantizer.type: vq\n");
    write_text(folder_ / "nsvq.yaml", "quantizer.type: nsvq\n");
    write_text(folder_ / "tiny.yaml", "train.epochs: 3\n");
    options_.scale = "test";
    options_.out = folder_ / "out";
  }
  Plan plan(const std::string& text = kSmall) {
    experiments_ = {parse_experiment(text, folder_ / "x.yaml")};
    return make_plan(experiments_, options_);
  }

  TemporaryFolder folder_;
  PlanOptions options_;
  std::vector<Experiment> experiments_;
};

/// What a run is compared by may be a setting that changes no result.
TEST_F(PlanTest, RunsThatVaryWhatChangesNoResultAreApart) {
  auto text = with("vary: quantizer.tau, values: [0.1, 1]", "vary: threads, values: [1, 2]");
  const auto plan = this->plan(text);
  const auto& rows = plan.experiments[0].rows;
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_NE(rows[2].runs, rows[3].runs);
  EXPECT_NE(plan.runs[rows[2].runs[0]].folder, plan.runs[rows[3].runs[0]].folder);
}

TEST_F(PlanTest, NumbersOfGpusAreThoseOfTheMachine) {
  const auto text = with("vary: quantizer.tau, values: [0.1, 1]", "vary: gpus, values: [1, 2, 4]");
  const auto rows = [&](int gpus) {
    options_.gpus = gpus;
    std::vector<std::string> names;
    const auto plan = this->plan(text);
    for (const auto& row : plan.experiments[0].rows) names.push_back(row.name);
    return std::vector(names.begin() + 2, names.end());
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(rows(0), Names{"sweep@1"});  // on the CPU
  EXPECT_EQ(rows(1), Names{"sweep@1"});
  EXPECT_EQ(rows(3), (Names{"sweep@1", "sweep@2"}));
  const auto plan = this->plan(text);
  const auto& of = plan.experiments[0].rows;
  EXPECT_EQ(of[2].title, "sweep");
  EXPECT_EQ(of[3].title, "sweep, 2 GPUs");
  expect_contains(plan.experiments[0].notes.at(0), {"this machine has 3 GPUs; rows of 4 or more"});
  const auto &one = plan.runs[of[2].runs[0]], &two = plan.runs[of[3].runs[0]];
  EXPECT_EQ(one.recipe, two.recipe);
  EXPECT_NE(one.folder, two.folder);
  EXPECT_EQ(two.batch, 2 * one.batch);
  EXPECT_TRUE(job_of(plan, of[2].runs[0]).alone);
  const auto words = job_of(plan, of[3].runs[0]).next();
  EXPECT_EQ(std::vector(words.end() - 2, words.end()), (Names{"--gpus", "2"}));
  const auto only_more = with("vary: quantizer.tau, values: [0.1, 1]", "vary: gpus, values: [4]");
  options_.rows = {"sweep@4"};
  expect_contains(error_of([&] { this->plan(only_more); }), {"needs more GPUs"});
  options_.rows.clear();
  auto uneven = with("quantizer.tau, values: [0.1, 1]", "gpus, values: [1, 2]");
  uneven.replace(uneven.find("test: {over"), 11, "test: {set: [train.global_batch=5], over");
  expect_contains(error_of([&] { this->plan(uneven); }),
                  {"x.yaml: runs.sweep@2: train.global_batch: 5", "2 processes"});
  // One GPU is what a run without the key has.
  const auto chart =
      std::string(", values: [0.1, 1]}\ncharts:\n  tau: {kind: sweep, y: [psnr], runs: [sweep]}");
  auto plain = with(", vary: quantizer.tau" + chart, "}");
  const auto other = this->plan(plain);
  EXPECT_EQ(other.runs[other.experiments[0].rows[2].runs[0]].folder.filename().string().substr(5),
            one.folder.filename().string().substr(7));
}

TEST_F(PlanTest, RowsOfNetworksThatAreNotThereAreLeftOut) {
  const auto text = with("  vq: {title: VQ,",
                         "  patches: {kind: features, row: false, set: [net=resnet50, codes=8]}\n"
                         "  vq: {title: VQ, needs: {quantizer.features.file: patches},");
  WeightsStore store;
  const auto without = plan(text);
  EXPECT_EQ(without.experiments[0].rows.front().name, "nsvq");
  expect_contains(without.experiments[0].notes.at(0), {"VQ is left out: no weights resnet50"});
  options_.rows = {"vq"};
  expect_contains(error_of([&] { plan(text); }), {"--rows: VQ is left out", "weights import"});
  options_.rows = {"vq@3"};
  expect_contains(error_of([&] { plan(text); }), {"--rows: VQ is left out"});
  options_.rows = {"sweep@7"};
  expect_contains(error_of([&] { plan(text); }), {"sweep@7 is not one of the rows sweep@0.1"});
  options_.rows.clear();
  store.add("resnet50", ResNet50());
  EXPECT_EQ(plan(text).experiments[0].rows.front().name, "vq");
}

TEST_F(PlanTest, ValidationOnTrainingImagesIsOnThoseOfTheCommandLineToo) {
  options_.train[""].items = {"builtin:dead-leaves?size=32&count=7"};
  options_.val[""].items = {"builtin:dead-leaves?size=32&count=3"};
  const auto own = plan(), training = plan("validation: training\n" + std::string(kSmall));
  EXPECT_EQ(own.runs[0].val.text(), "builtin:dead-leaves?size=32&count=3");
  EXPECT_EQ(training.runs[0].val.text(), "builtin:dead-leaves?size=32&count=7");
}

TEST_F(PlanTest, SettingsThatDoNotFitNameTheRun) {
  const auto error = error_of([&] { plan(with("quantizer.alpha=0.2", "data.size=33")); });
  expect_contains(error, {"x.yaml: runs.nsvq (", "nsvq.yaml", "data.size"});
}

TEST_F(PlanTest, TheTimeOfARunIsThatOfItsLoggedStepsElseOfRunsLikeIt) {
  options_.train[""].items = {"builtin:dead-leaves?size=32&count=70"};
  const auto plan = this->plan();
  const auto& run = plan.runs[0];
  EXPECT_FALSE(estimate_runs(plan)[0].seconds);
  const auto rate = fmt::format("{}", 4 * run.batch);  // a quarter of a second a step
  write_text(run.run() / "metrics.jsonl",
             R"({"kind": "step", "step": 1, "images_per_second": )" + rate + "}\n");
  const auto estimates = estimate_runs(plan);
  EXPECT_EQ(estimates[0].state, "begun");
  EXPECT_EQ(*estimates[0].seconds, 0.25 * static_cast<double>(*estimates[0].steps));
  EXPECT_EQ(estimates[1].state, "to do");
  EXPECT_EQ(*estimates[1].seconds, 0.25 * static_cast<double>(*estimates[1].steps));
  EXPECT_EQ(estimates[0].by, "its own steps");
  EXPECT_EQ(estimates[1].by, "an equal run");  // of another seed
  EXPECT_EQ(estimates[2].by, "others, by pixels");
  EXPECT_NE(plan_table(plan).find("8 runs for 1 experiment"), std::string::npos);
}

TEST_F(PlanTest, OneRunOfEachKindIsTimed) {
  options_.train[""].items = {"builtin:dead-leaves?size=32&count=70"};
  auto text = with("values: [0.1, 1]}",
                   "values: [0.1, 1]}\n  wide: {recipe: nsvq.yaml, set: [model.width=64]}");
  const auto plan = this->plan(text);
  const auto name_of = [&](size_t run) { return plan.runs[run].name; };
  // Seeds, alpha, tau and epochs take no time; a quantizer and a width do.
  const auto timed = runs_to_time(plan);
  ASSERT_EQ(timed.size(), 3u);
  EXPECT_EQ(name_of(timed[0]), "vq");
  EXPECT_EQ(name_of(timed[1]), "nsvq");
  EXPECT_EQ(name_of(timed[2]), "wide");

  const auto& nsvq = plan.runs[timed[1]];
  const StepTimes times = {{speed_key(nsvq), 0.5}};
  const auto estimates = estimate_runs(plan, times);
  for (size_t i = 0; i < plan.runs.size(); ++i) {
    const bool known = name_of(i) == "nsvq" || name_of(i).starts_with("sweep@");
    EXPECT_EQ(estimates[i].seconds.has_value(), known) << name_of(i);
    if (!known) continue;
    EXPECT_EQ(*estimates[i].seconds, 0.5 * static_cast<double>(*estimates[i].steps));
    EXPECT_EQ(estimates[i].by, "timed steps");
  }
  expect_contains(plan_table(plan, times), {"timed steps\n", "and 4 runs of unknown time"});

  // What is logged counts before what is timed, and is not timed again.
  const auto rate = fmt::format("{}", 4 * nsvq.batch);
  write_text(nsvq.run() / "metrics.jsonl",
             R"({"kind": "step", "step": 1, "images_per_second": )" + rate + "}\n");
  EXPECT_EQ(runs_to_time(plan).size(), 2u);
  const auto again = estimate_runs(plan, times);
  EXPECT_EQ(again[timed[1]].by, "its own steps");
  EXPECT_EQ(*again[timed[1]].seconds, 0.25 * static_cast<double>(*again[timed[1]].steps));
}

TEST_F(PlanTest, HasARunForEachValueAndSeed) {
  const auto plan = this->plan();
  EXPECT_EQ(plan.runs.size(), 8u);  // vq, nsvq and two values, by two seeds
  const auto& rows = plan.experiments[0].rows;
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[2].name, "sweep@0.1");
  EXPECT_EQ(plan.runs[rows[0].runs[0]].epochs, 3);
  EXPECT_EQ(plan.runs[rows[1].runs[0]].epochs, 1);
  EXPECT_EQ(plan.runs[rows[1].runs[1]].seed, 1);
}

TEST_F(PlanTest, AChangedRecipeIsAnotherRunAndHowItIsLoggedIsNot) {
  const auto folder = [&] { return plan().runs[0].folder.filename().string(); };
  const auto before = folder();
  write_text(folder_ / "vq.yaml", "quantizer.type: vq\ntrain.log_every: 7\ndevice: cpu\n");
  EXPECT_EQ(folder(), before);
  write_text(folder_ / "vq.yaml", "quantizer.type: vq\nquantizer.beta: 0.3\n");
  EXPECT_NE(folder(), before);
  write_text(folder_ / "vq.yaml", "quantizer.type: vq\ntrain.epochs: 4\n");
  EXPECT_EQ(folder(), before);  // the scale's recipe lies over it
  options_.train[""] = "other";
  EXPECT_NE(folder(), before);
}

TEST_F(PlanTest, EqualRunsAreOne) {
  const auto text = with("  sweep: {recipe: nsvq.yaml, vary: quantizer.tau, values: [0.1, 1]}",
                         "  again: {recipe: vq.yaml}\n"
                         "  sweep: {recipe: nsvq.yaml, vary: quantizer.tau, values: [0.1]}");
  const auto plan = this->plan(text);
  const auto& rows = plan.experiments[0].rows;
  EXPECT_EQ(rows[0].runs, rows[2].runs);
  EXPECT_EQ(plan.runs.size(), 6u);
}

/// Over the scale's recipes and settings, below the run's own settings.
TEST_F(PlanTest, RecipesOverARunLieOverTheScale) {
  write_text(folder_ / "long.yaml", "train.epochs: 5\nquantizer.alpha: 0.2\n");
  const auto epochs = [&](const std::string& scale, const std::string& run) {
    auto text = with("recipe: vq.yaml", "recipe: vq.yaml" + run);
    text.replace(text.find("test: {over: [tiny.yaml]"), 24, "test: {" + scale);
    return plan(text).runs[0].epochs;
  };
  for (const std::string scale : {"over: [tiny.yaml]", "set: [train.epochs=4]"}) {
    EXPECT_EQ(epochs(scale, ", over: [long.yaml]"), 5) << scale;
    EXPECT_EQ(epochs(scale, ", over: [long.yaml], set: [train.epochs=6]"), 6) << scale;
  }
  EXPECT_EQ(
      plan(with("recipe: vq.yaml", "recipe: vq.yaml, over: [long.yaml]")).runs[0].folder,
      plan(with("recipe: vq.yaml", "recipe: vq.yaml, set: [train.epochs=5, quantizer.alpha=0.2]"))
          .runs[0]
          .folder);
}

TEST_F(PlanTest, NeededRunsComeBeforeAndCountInTheHash) {
  const auto text = with("set: [quantizer.alpha=0.2]", "needs: {train.init_from: vq}");
  const auto plan = this->plan(text);
  const auto& run = plan.runs[plan.experiments[0].rows[1].runs[0]];
  ASSERT_EQ(run.needs.size(), 1u);
  EXPECT_EQ(plan.runs[run.needs[0]].name, "vq");
  EXPECT_NE(run.recipe.find(plan.runs[run.needs[0]].run().string()), std::string::npos);
  const auto before = run.folder;
  write_text(folder_ / "vq.yaml", "quantizer.type: vq\nquantizer.beta: 0.3\n");
  const auto changed = this->plan(text);
  EXPECT_NE(changed.runs[changed.experiments[0].rows[1].runs[0]].folder, before);
}

TEST_F(PlanTest, FoldersStayBelowOneWhateverAValueIs) {
  auto text = with("vary: quantizer.tau, values: [0.1, 1]",
                   "vary: data.val, values: [../../../a/b, 'x y', " + std::string(300, 'l') + "]");
  text.erase(text.find("charts:"), text.find("claims:") - text.find("charts:"));  // over numbers
  const auto plan = this->plan(text);
  for (const auto& run : plan.runs) {
    EXPECT_EQ(run.folder.parent_path(), options_.out / "runs") << run.folder;
    EXPECT_LT(run.folder.filename().string().size(), 200u);
  }
  const auto& rows = plan.experiments[0].rows;
  EXPECT_TRUE(
      plan.runs[rows[2].runs[0]].folder.filename().string().starts_with("sweep-..-..-..-a-b-"));
  options_.val[""] = "other";
  expect_contains(error_of([&] { this->plan(text); }), {"runs.sweep.vary", "data.val", "--val"});
}

TEST_F(PlanTest, RunsThatManyNeedAreFollowedOnce) {
  std::string text = "scales: {test: {seeds: [0]}}\nruns:\n";
  for (int i = 0; i < 40; ++i) {
    text += fmt::format("  r{0}: {{recipe: vq.yaml, set: [optimizer.lr=1e-{0}]", i);
    const auto next = fmt::format(", needs: {{train.init_from: r{0}, data.val: r{0}}}", i + 1);
    text += (i < 39 ? next : "") + "}\n";
  }
  EXPECT_EQ(plan(text).runs.size(), 40u);
  const std::string last = "1e-39]";
  text.replace(text.find(last), last.size(), last + ", needs: {train.init_from: r3}");
  expect_contains(error_of([&] { plan(text); }), {"runs.r3", "needs itself"});
}

TEST_F(PlanTest, CommandsOfStoredRunsAreRunOnlyIfAllowed) {
  write_text(folder_ / "run/config.yaml", "quantizer.type: vq\ndata.train: 'pipe:cat x.tar'\n");
  write_text(folder_ / "child.yaml", "base: [vq.yaml, run/config.yaml]\n");
  const auto error_with = [&](const std::string& recipe) {
    const auto plan = this->plan("scales: {test: {seeds: [0]}}\nruns: {a: {" + recipe + "}}\n");
    return error_of([&] { require_images(plan); });
  };
  for (const auto* recipe : {"recipe: run/config.yaml", "recipe: child.yaml"}) {
    expect_contains(error_with(recipe), {"pipe:cat", "stored settings", "--allow-pipe"});
  }
  const auto is_refused = [](const std::string& error) {
    return error.find("stored settings") != std::string::npos;
  };
  EXPECT_FALSE(is_refused(error_with("recipe: child.yaml, set: ['data.train=pipe:cat x.tar']")));
  options_.allow_pipe = true;
  EXPECT_FALSE(is_refused(error_with("recipe: run/config.yaml")));
}

TEST_F(PlanTest, AFinishedRunOfOtherSettingsIsNotTakenForItsOwn) {
  const auto plan = this->plan();
  const auto& run = plan.runs[0];
  RunState state;
  state.finished = true;
  state.step = state.epoch = 1'000'000;  // whatever the budget is
  const auto checkpoint = run.run() / "checkpoints/step-0";
  write_text(checkpoint / "state.json", state_to_json(state, {}));
  write_checksums(checkpoint);
  const auto job_with = [&](const std::string& settings) {
    write_text(run.run() / "config.yaml", settings);
    return job_of(plan, 0, 0);
  };
  const auto words = job_with(run.recipe).next();
  EXPECT_EQ(words.at(0), "eval");
  for (const std::string other :
       {"seed: 5\n", "train.epochs: 99\n", "quantizer.beta: 0.3\n", "data.train: other\n"}) {
    const auto job = job_with("base: recipe.yaml\n" + other);
    write_text(run.run() / "recipe.yaml", run.recipe);
    expect_contains(error_of([&] { job.next(); }),
                    {run.run().string(), other.substr(0, other.find(':')), "another"});
    EXPECT_FALSE(is_done(RunView(plan, 0)));
  }
}

TEST_F(PlanTest, RunsCanBeOfSomeScalesOnlyAndHaveTheirOwnSeeds) {
  const auto text = with("set: [quantizer.alpha=0.2]", "only: [cpu]");
  EXPECT_EQ(plan(text).experiments[0].rows.size(), 3u);  // without nsvq
  EXPECT_TRUE(plan(text).experiments[0].notes.empty());
  const auto seeds = plan(with("test.set: [train.epochs=1]", "test.seeds: [0, 1, 2]"));
  EXPECT_EQ(seeds.experiments[0].rows[0].runs.size(), 2u);
  EXPECT_EQ(seeds.experiments[0].rows[1].runs.size(), 3u);
}

TEST_F(PlanTest, WrongSettingsNameTheFile) {
  const auto text = with("set: [quantizer.alpha=0.2]", "set: [quantizer.alhpa=0.2]");
  expect_contains(error_of([&] { plan(text); }), {"x.yaml", "runs.nsvq.set", "quantizer.alhpa"});
  expect_contains(error_of([&] { plan(with("recipe: vq.yaml", "recipe: gone.yaml")); }),
                  {"gone.yaml"});
  options_.scale = "paper";
  expect_contains(error_of([&] { plan(); }), {"x.yaml", "no scale paper", "cpu, test"});
}

}  // namespace
}  // namespace nsvq
