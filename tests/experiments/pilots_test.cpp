// Settings that short runs decide.

#include "nsvq/experiments/plan/run_view.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/experiments/plan/make_plan.h"
#include "nsvq/experiments/run/reproduce.h"
#include "nsvq/io/files/file.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

constexpr auto kTried = R"(
title: A rate by pilots
columns: [psnr, rate]
scales:
  test:
    seeds: [3, 4]
    set: [train.epochs=8]
    pilot: {key: optimizer.lr, values: [1e-4, 1e-3, 1e-2], set: [train.epochs=2], metric: METRIC}
figures:
  rate: {of: pilot.chosen}
runs:
  vq: {recipe: vq.yaml}
  longer: {recipe: vq.yaml, set: [train.epochs=16], needs: {train.init_from: start}}
  start: {recipe: vq.yaml, row: false}
)";

class PilotsTest : public testing::Test {
 protected:
  PilotsTest() { write_text(folder_ / "vq.yaml", "quantizer.type: vq\n"); }

  void make(const std::string& metric = "psnr", std::vector<int64_t> seeds = {}) {
    std::string text = kTried;
    text.replace(text.find("METRIC"), 6, metric);
    experiments_ = {parse_experiment(text, folder_ / "x.yaml")};
    PlanOptions options;
    options.scale = "test";
    options.out = folder_ / "out";
    options.seeds = std::move(seeds);
    options.rows = rows_;
    plan_ = make_plan(experiments_, options);
  }
  const PlannedRun& row(size_t row, size_t seed = 0) const {
    return plan_.runs[plan_.experiments[0].rows[row].runs[seed]];
  }
  RunView view(size_t row, size_t seed = 0) const {
    return {plan_, plan_.experiments[0].rows[row].runs[seed]};
  }
  const PlannedRun& pilot(const PlannedRun& run, size_t value) const {
    return plan_.runs[run.pilots.runs.at(value)];
  }
  void measure(const PlannedRun& run, const std::string& json) { write_text(run.figures(), json); }
  TokenizerConfig config_of(const std::string& recipe) { return parse_config(recipe, "recipe"); }

  TemporaryFolder folder_;
  std::vector<std::string> rows_;
  std::vector<Experiment> experiments_;
  Plan plan_;
};

TEST_F(PilotsTest, EachRowHasOneAValueWithTheFirstSeed) {
  make();
  for (const size_t seed : {0, 1}) {
    const auto& run = row(0, seed);
    ASSERT_EQ(run.pilots.runs.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      const auto config = config_of(pilot(run, i).recipe);
      EXPECT_EQ(config.train.epochs, 2);
      EXPECT_EQ(config.seed, 3u);
      EXPECT_EQ(pilot(run, i).metrics, (std::vector<std::string>{"psnr"}));
      EXPECT_NE(std::find(run.needs.begin(), run.needs.end(), run.pilots.runs[i]), run.needs.end());
    }
    EXPECT_EQ(config_of(pilot(run, 1).recipe).optimizer.lr, 1e-3);
  }
  EXPECT_EQ(row(0, 0).pilots.runs, row(0, 1).pilots.runs);
  EXPECT_NE(row(0, 0).folder, row(0, 1).folder);
  // A run that is no row is neither tried nor measured.
  const auto& start = plan_.runs[row(1).needs.front()];
  EXPECT_EQ(start.name, "start");
  EXPECT_TRUE(start.pilots.runs.empty());
  EXPECT_TRUE(start.metrics.empty());
}

TEST_F(PilotsTest, OtherSeedsHaveTheSame) {
  make();
  const auto pilots = row(0).pilots.runs;
  const auto folder = pilot(row(0), 0).folder;
  make("psnr", {7, 8});
  EXPECT_EQ(config_of(row(0).recipe).seed, 7u);
  EXPECT_EQ(row(0).pilots.runs.size(), pilots.size());
  EXPECT_EQ(pilot(row(0), 0).folder, folder);
}

TEST_F(PilotsTest, ChosenRowsBringWhatTheyNeed) {
  rows_ = {"longer"};
  make();
  EXPECT_FALSE(row(0).wanted);
  EXPECT_FALSE(pilot(row(0), 0).wanted);
  EXPECT_TRUE(row(1, 0).wanted && row(1, 1).wanted);
  for (const size_t need : row(1).needs) EXPECT_TRUE(plan_.runs[need].wanted);
  rows_ = {"start"};  // a run, but no row
  expect_contains(error_of<UserError>([&] { make(); }), {"start is no row"});
}

TEST_F(PilotsTest, TheBestOneDecides) {
  make();
  const auto& run = row(0);
  measure(pilot(run, 0), R"({"psnr": 20.5})");
  measure(pilot(run, 1), R"({"psnr": 21.5})");
  measure(pilot(run, 2), R"({"psnr": null})");  // NaN
  EXPECT_EQ(view(0).chosen_value(), "1e-3");
  const auto config = config_of(view(0).recipe());
  EXPECT_EQ(config.optimizer.lr, 1e-3);
  EXPECT_EQ(config.train.epochs, 8);
  EXPECT_EQ(config_of(view(0, 1).recipe()).optimizer.lr, 1e-3);
  EXPECT_EQ(config_of(view(0, 1).recipe()).seed, 4u);
  // What the training command reads.
  job_of(plan_, plan_.experiments[0].rows[0].runs[0]).next();
  EXPECT_EQ(config_of(read_text(run.folder / "recipe.yaml")).optimizer.lr, 1e-3);
}

TEST_F(PilotsTest, LowerIsBetterForSomeMetricsAndTheFirstOfEqualOnesCounts) {
  make("lpips-vgg");
  const auto& run = row(0);
  measure(pilot(run, 0), R"({"lpips-vgg": 0.5})");
  measure(pilot(run, 1), R"({"lpips-vgg": 0.25})");
  measure(pilot(run, 2), R"({"lpips-vgg": 0.25})");
  EXPECT_EQ(view(0).chosen_value(), "1e-3");
}

TEST_F(PilotsTest, WithoutAFigureIsAnError) {
  make();
  const auto& run = row(0);
  for (size_t i = 0; i < 3; ++i) measure(pilot(run, i), R"({"psnr": null})");
  expect_contains(error_of<RunError>([&] { view(0).recipe(); }), {"pilots", "psnr"});
}

TEST_F(PilotsTest, TheChosenValueIsAFigure) {
  make();
  const auto run = plan_.experiments[0].rows[0].runs[0];
  EXPECT_FALSE(RunView(plan_, run).figure(experiments_[0], "rate"));  // not begun
  for (size_t i = 0; i < 3; ++i) {
    measure(pilot(row(0), i), i == 2 ? R"({"psnr": 30})" : R"({"psnr": 20})");
  }
  write_text(plan_.runs[run].run() / "metrics.jsonl", "");
  EXPECT_EQ(RunView(plan_, run).figure(experiments_[0], "rate"), 1e-2);
}

TEST_F(PilotsTest, OtherPilotsMakeAnotherRun) {
  make();
  const auto before = row(0).folder;
  make("ssim");
  EXPECT_NE(row(0).folder, before);
  make();
  EXPECT_EQ(row(0).folder, before);
  make("psnr", {3});
  EXPECT_EQ(row(0).folder, before);
}

}  // namespace
}  // namespace nsvq
