// The keys that a training writes to metrics.jsonl are those that its report draws.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/losses/loss.h"
#include "nsvq/metrics/metric.h"
#include "nsvq/report/curves.h"
#include "nsvq/train/vq/trainer.h"
#include "tests/train/tiny.h"
#include "tests/weights_store.h"

namespace nsvq {
namespace {

/// Its network sees images of 224x224 pixels, which takes a minute.
constexpr auto kSlowLoss = "logits";

/// The log of a run with every measurement and loss but the slow one.
RunLog log_of_full_run() {
  const TemporaryFolder folder;
  WeightsStore weights;
  weights.add_lpips("squeeze");
  auto config = tiny_config();
  config.data.size = 32;
  std::vector<std::string> settings = {"loss.perceptual_net=squeeze"};
  for (const auto& kind : loss_kinds()) {
    if (kind.name != kSlowLoss) settings.push_back("loss." + kind.name + "=0.1");
  }
  option_table(config).load("", settings);
  for (const auto& kind : loss_kinds()) {
    EXPECT_EQ(kind.weight(config.loss) > 0, kind.name != kSlowLoss) << kind.name;
  }
  config.adversarial.weight = 0.1;
  config.adversarial.lecam = 0.1;
  config.adversarial.width = 4;
  config.adversarial.layers = 1;
  config.optimizer.schedule.shape = config.optimizer.discriminator_schedule.shape = "cosine";
  config.drift.ste_gap = true;
  config.train.epochs = 2;
  Trainer(config, folder / "run", make_single_group()).loop().train();
  return parse_run_log(read_text(folder / "run" / "metrics.jsonl"));
}

bool is_metric(const std::string& name) {
  return std::ranges::any_of(metric_kinds(), [&](const auto& kind) { return kind.name == name; });
}

TEST(ReportCurves, EveryKeyOfATrainingHasItsPlace) {
  const auto log = log_of_full_run();
  EXPECT_EQ(log.unreadable, 0);
  std::vector<std::string> titles;
  std::set<std::string> lines;
  for (const auto& group : make_curves(log)) {
    titles.push_back(group.title);  // Keys that no curve names would be under "Other".
    for (const auto& chart : group.charts) {
      for (const auto& series : chart.series) {
        EXPECT_TRUE(lines.insert(chart.title + "/" + series.name).second) << series.name;
      }
    }
  }
  EXPECT_EQ(titles, (std::vector<std::string>{"Quality", "Codebook", "Encoder drift", "Losses",
                                              "Adversary", "Gradients and speed"}));

  int slow = 0;
  // And no curve waits for a key that nothing writes. Metrics are chosen by the recipe.
  for (const auto& topic : known_curves()) {
    for (const auto& curve : topic.curves) {
      for (const auto& line : curve.lines) {
        if (line.kind == "eval" || is_metric(line.key)) continue;
        if (line.key == "peak_reserved_gib") continue;  // of GPUs alone
        slow += line.key == kSlowLoss;
        if (line.key == kSlowLoss) continue;
        EXPECT_FALSE(log.values(line.kind, line.key).empty()) << line.kind << " " << line.key;
      }
    }
  }
  EXPECT_EQ(slow, 1) << "curves of " << kSlowLoss;
}

}  // namespace
}  // namespace nsvq
