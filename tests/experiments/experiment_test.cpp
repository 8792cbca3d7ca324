// Experiments as files: what they may say, and what is refused.

#include "nsvq/experiments/spec/experiment.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/experiments/plan/make_plan.h"
#include "nsvq/experiments/plan/run_settings.h"
#include "nsvq/io/files/file.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/experiments/small_experiment.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

const fs::path kExperiments = fs::path(NSVQ_TESTS_DIR) / "../../configs/experiments";

Experiment parse(const std::string& text) { return parse_experiment(text, "dir/x.yaml"); }

TEST(Experiment, HasWhatItsFileSays) {
  const auto experiment = parse(kSmall);
  EXPECT_EQ(experiment.name, "x");
  ASSERT_EQ(experiment.runs.size(), 3u);
  EXPECT_EQ(experiment.runs[0].name, "vq");  // in the order of the file
  EXPECT_EQ(experiment.runs[0].recipe, "dir/vq.yaml");
  EXPECT_EQ(experiment.runs[0].paper.at("psnr"), 22.2);
  EXPECT_EQ(experiment.runs[1].title, "nsvq");
  EXPECT_EQ(experiment.runs[2].values, (std::vector<std::string>{"0.1", "1"}));
  EXPECT_EQ(experiment.scales.at("test").seeds, (std::vector<int64_t>{0, 1}));
}

TEST(Experiment, WhatIsWrongIsSaidInOneLine) {
  const std::vector<std::vector<std::string>> cases = {
      {"title: VQ,", "tittle: VQ,", "runs.vq.tittle", "did you mean"},
      {"columns: [psnr, drift]", "columns: [psrn]", "psrn", "did you mean 'psnr'"},
      {"holds: [\"nsvq:psnr > vq:psnr\"]", "holds: [\"nsvq:psnr > vqq:psnr\"]", "vqq"},
      {"holds: [\"nsvq:psnr > vq:psnr\"]", "holds: [better]", "no comparison"},
      {"runs: [sweep]", "runs: [vq]", "varies nothing"},
      {"  cpu: {set", "  cup: {set", "cup", "did you mean 'cpu'"},
      {"recipe: vq.yaml", "row: true", "recipe is missing"},
      {"recipe: vq.yaml", "recipe: vq.yaml, over: tiny.yaml", "runs.vq.over", "[tiny.yaml]"},
      {"recipe: vq.yaml", "kind: features, over: [tiny.yaml]", "runs.vq", "over: a run of kind"},
      {"vary: quantizer.tau, ", "", "vary and values"},
      {"of: drift.drift", "of: drift", "KIND.KEY"},
      {"take: mean", "take: average", "take"},
      {"seeds: [0, 1]", "seeds: [-1]", "seeds"},
      {"paper: {psnr: 22.2}", "paper: {psnr: high}", "runs.vq.paper.psnr"},
      {"  vq: {", "  v q: {", "no name"},
      {"set: [quantizer.alpha=0.2]", "needs: {train.init_from: nsvq}", "needs itself"},
      {"set: [quantizer.alpha=0.2]", "needs: {train.init_from: gone}", "gone"},
      {"set: [quantizer.alpha=0.2]", "kind: tokeniser", "kind"},
      {"set: [quantizer.alpha=0.2]", "only: [gpus]", "runs.nsvq.only", "gpus"},
      {"set: [quantizer.alpha=0.2]", "set: [seed=7]", "runs.nsvq.set", "`seeds:`"},
      {"vary: quantizer.tau, ", "vary: seed, ", "runs.sweep.vary", "`seeds:`"},
      {"set: [train.epochs=2]", "set: [seed=7]", "scales.cpu.set", "`seeds:`"},
      {"charts:", "pictures: {/out: {runs: [vq]}}\ncharts:", "pictures", "no name"},
      {"y: [psnr]", "y: []", "charts.tau"},
      {"{set: [train.epochs=2]}", "{pilot: {key: optimizer.lr, values: [1]}}", "pilot", "two"},
      {"{set: [train.epochs=2]}", "{pilot: {set: [train.epochs=2]}}", "pilot", "key"},
      {"{set: [train.epochs=2]}", "{pilot: {key: optimizer.lr, values: [1, 2], metric: pnsr}}",
       "pnsr", "psnr"},
      {"text: NSVQ is better, ", "", "claims.better", "text is missing"},
      {", holds: [\"nsvq:psnr > vq:psnr\"]", "", "claims.better", "holds is missing"},
      {"nsvq:psnr > vq:psnr", "*:psnr > vq:psnr", "claims.better.holds", "several rows", "min()"},
      {"nsvq:psnr > vq:psnr", "nsvq:psnr > sweep@*:psnr", "claims.better.holds", "several rows"},
      {"nsvq:psnr > vq:psnr", "nsvq:psnr > sweep@7:psnr", "claims.better.holds", "sweep@7"},
      {"nsvq:psnr > vq:psnr", "nsvq:ssim > vq:ssim", "claims.better.holds", "no column", "ssim"},
      {"seeds: [0, 1]", "seeds: [0, 1, 0]", "scales.test.seeds", "0 is named twice"},
      {"columns: [psnr, drift]", "columns: [psnr, drift, psnr]", "columns", "psnr is named twice"},
      {"values: [0.1, 1]", "values: [0.1, 0.1]", "runs.sweep.values", "0.1 is named twice"},
      {"values: [0.1, 1]", "values: [0.1, much]", "runs.sweep.values", "'much' is no number"},
      {"runs: [sweep]}", "runs: [sweep]}\npictures: {p: {runs: [vq]}}", "pictures.p.runs", "two"},
      {"runs: [sweep]}", "runs: [sweep]}\npictures: {p: {runs: [vq, sweep]}}", "not one row"},
      {"take: mean", "take: mean, relative_to: swep", "figures.drift.relative_to", "swep"},
      {"take: mean", "take: mean, relative_to: sweep", "figures.drift.relative_to", "vq does not"},
      {"quantizer.tau, values: [0.1, 1]", "gpus, values: [1, 0.5]", "runs.sweep.values", "'0.5'"},
      {"set: [quantizer.alpha=0.2]", "cpu.values: [1]", "runs.nsvq.cpu.values", "varies nothing"},
  };
  for (const auto& one : cases) {
    const auto error = error_of([&] { parse(with(one[0], one[1])); });
    expect_contains(error, {one.begin() + 2, one.end()});
    expect_contains(error, {"x.yaml"});
  }
  error_of([] { parse(""); });
  error_of([] { parse("a: [1\n"); });
  error_of([] { parse("runs: 3\n"); });
  error_of([] { parse("- a\n- b\n"); });
  error_of([] { read_experiment("/nonexistent.yaml"); });
  error_of([] { read_experiment("/"); });
  error_of([] { parse_experiment(kSmall, "dir/index.yaml"); });
}

TEST(Experiment, ARecipeThatIsNotThereIsNamedWithItsKey) {
  const TemporaryFolder folder;
  write_text(folder / "x.yaml", kSmall);
  expect_contains(error_of([&] { read_experiment(folder / "x.yaml"); }),
                  {"x.yaml: runs.vq.recipe: there is no file", "vq.yaml"});
  write_text(folder / "vq.yaml", "");
  write_text(folder / "x.yaml", with("recipe: vq.yaml", "recipe: vq.yaml, over: ['']"));
  expect_contains(error_of([&] { read_experiment(folder / "x.yaml"); }),
                  {"x.yaml: runs.vq.over: a path is empty"});
}

TEST(Experiments, TheRecipeOfTheGpuScaleIsThisBudget) {
  const auto table1 = (kExperiments / "../table1").string();
  const auto settings = [&](const std::vector<std::string>& recipes,
                            const std::vector<std::string>& set) {
    SettingsLayers layers;
    for (const auto& name : recipes) layers.add_recipes({table1 + "/" + name});
    layers.add("test", set);
    return resolve_settings("tokenizer", layers).yaml;
  };
  for (const std::string row : {"simvq.yaml", "nsvq.yaml", "fvq.yaml", "nsvq-tracking.yaml"}) {
    EXPECT_EQ(
        settings({row, "gpu-5000.yaml"}, {}),
        settings({row, "gpu.yaml"},
                 {"train.steps=5000", "schedule.epoch_steps=50", "schedule.freeze=epoch",
                  "schedule.freeze_epoch=80", "schedule.warmup_epochs=8", "schedule.ramp_epochs=4",
                  "replacement.exempt_epochs=2", "adversarial.weight=0.1",
                  "adversarial.start_step=2000", "optimizer.lr=4e-4", "drift.images=64",
                  "drift.every_steps=50", "train.deterministic=false"}));
  }
}

TEST(Experiments, AllHaveFourScalesThatCanBePlanned) {
  int count = 0;
  const TemporaryFolder folder;
  for (const auto& entry : fs::directory_iterator(kExperiments)) {
    if (entry.path().extension() != ".yaml") continue;
    SCOPED_TRACE(entry.path());
    ++count;
    std::vector<Experiment> experiments = {read_experiment(entry.path())};
    EXPECT_FALSE(experiments[0].claims.empty());
    for (const auto scale : kScales) {
      SCOPED_TRACE(scale);
      PlanOptions options;
      options.scale = scale;
      options.out = folder / "out";
      EXPECT_FALSE(make_plan(experiments, options).runs.empty());
    }
  }
  EXPECT_EQ(count, 12);
}

TEST(Experiments, SweepsCanBePlannedAtTheirScales) {
  const TemporaryFolder folder;
  const std::vector<Experiment> experiments = {
      read_experiment(kExperiments / "../sweeps/ingredients.yaml")};
  const auto runs_at = [&](const std::string& scale) {
    PlanOptions options;
    options.scale = scale;
    options.out = folder / "out";
    return make_plan(experiments, options).runs.size();
  };
  EXPECT_EQ(runs_at("gpu"), 10u);
  EXPECT_EQ(runs_at("cpu"), 8u);
  EXPECT_EQ(runs_at("test"), 8u);
  EXPECT_THROW(runs_at("paper"), UserError);
}

}  // namespace
}  // namespace nsvq
