// What comes out of an experiment: claims, and figures beside the paper's.

#include "nsvq/experiments/outcome/outcome.h"

#include <gtest/gtest.h>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/experiments/plan/make_plan.h"
#include "nsvq/io/files/file.h"
#include "tests/experiments/small_experiment.h"

namespace nsvq {
namespace {

class OutcomeTest : public testing::Test {
 protected:
  OutcomeTest() {
    write_text(folder_ / "vq.yaml", "quantizer.type: vq\n");
    write_text(folder_ / "nsvq.yaml", "quantizer.type: nsvq\n");
    write_text(folder_ / "tiny.yaml", "train.epochs: 3\n");
  }

  /// All runs are finished; NSVQ has 25 dB, all others have 20 dB.
  void gather(const std::string& scale, const std::string& text = kSmall) {
    experiments_ = {parse_experiment(text, folder_ / "x.yaml")};
    PlanOptions options;
    options.scale = scale;
    options.out = folder_ / "out";
    plan_ = make_plan(experiments_, options);
    for (const auto& run : plan_.runs) {
      write_text(run.figures(), run.name == "nsvq" ? R"({"psnr": 25})" : R"({"psnr": 20})");
    }
    const std::vector<JobResult> results(plan_.runs.size(), {true, ""});
    outcome_ = gather_outcome(plan_, plan_.experiments[0], results);
  }
  const Cell& psnr_of_vq() const { return outcome_.rows.at(0).cells.at(0); }

  TemporaryFolder folder_;
  std::vector<Experiment> experiments_;
  Plan plan_;
  ExperimentOutcome outcome_;
};

TEST_F(OutcomeTest, AClaimHoldsAndThePapersFigureIsBeside) {
  gather("cpu");
  EXPECT_EQ(psnr_of_vq().mean(), 20);
  EXPECT_EQ(psnr_of_vq().paper, 22.2);
  ASSERT_EQ(outcome_.claims.size(), 1u);
  EXPECT_EQ(outcome_.claims[0].verdict, ClaimVerdict::holds);
}

TEST_F(OutcomeTest, RunsOfSecondsJudgeNothing) {
  gather("test");
  EXPECT_EQ(psnr_of_vq().mean(), 20);
  EXPECT_FALSE(psnr_of_vq().paper);
  EXPECT_TRUE(outcome_.agreements.empty());
  ASSERT_EQ(outcome_.claims.size(), 1u);
  EXPECT_EQ(outcome_.claims[0].verdict, ClaimVerdict::untested);
  EXPECT_NE(outcome_.claims[0].why.find("seconds"), std::string::npos);
  EXPECT_EQ(verdict_in_words(outcome_.claims[0].verdict), "not tested at this scale");
}

TEST_F(OutcomeTest, AClaimOfTheirScaleIsTested) {
  gather("test", with("text: NSVQ is better,", "text: NSVQ is better, scales: [test],"));
  EXPECT_EQ(outcome_.claims.at(0).verdict, ClaimVerdict::holds);
}

}  // namespace
}  // namespace nsvq
