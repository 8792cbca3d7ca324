#include "nsvq/runs/verdict.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/runs/trend.h"

namespace nsvq {
namespace {

/// A log that is written line by line.
class Log {
 public:
  /// `values` as in JSON: "\"psnr\":20".
  Log& add(const std::string& kind, double step, const std::string& values) {
    text_ += fmt::format("{{\"kind\":\"{}\",\"step\":{},\"epoch\":1,\"phase\":\"stage1\",{}}}\n",
                         kind, step, values);
    return *this;
  }
  Log& psnr(double step, double value) {
    return add("eval", step, fmt::format("\"psnr\":{},\"utilisation\":{}", value, used));
  }
  /// Lines of steps, 10 to 100, from this error to that one.
  Log& errors(double from, double to) {
    for (int step = 10; step <= 100; step += 10) {
      add("step", step, fmt::format("\"loss\":1,\"l1\":{}", from + (to - from) * step / 100));
    }
    return *this;
  }
  Log& grey(double value, double tokens = 1000, double step = 100) {
    return add(
        "validation", step,
        fmt::format("\"grey_psnr\":{},\"images\":10,\"codes\":100,\"tokens\":{}", value, tokens));
  }

  const std::string& text() const { return text_; }
  Verdict judged(bool finished = true) const { return verdict_of(parse_run_log(text_), finished); }
  std::string word() const { return judged().word; }

  double used = 0.9;

 private:
  std::string text_;
};

/// One that has converged to a PSNR.
Log converged(double psnr = 25, double used = 0.9) {
  Log log;
  log.used = used;
  log.errors(0.1, 0.1).psnr(50, psnr - 0.1).psnr(80, psnr).psnr(100, psnr).grey(12);
  return log;
}

TEST(Verdict, OfARunThatWentFine) {
  auto log = converged();
  EXPECT_EQ(log.judged().text,
            "fine (PSNR 25.00 dB, a grey picture 12.00 dB); 90 % of the codes in use");
  log.add("drift", 100, "\"latents_participation\":9.13,\"codes_participation\":8.66");
  const auto verdict = log.judged();
  EXPECT_EQ(verdict.word, "fine");
  EXPECT_NE(verdict.text.find("; latents vary in 9.1 directions, codes in 8.7"), std::string::npos)
      << verdict.text;
}

TEST(Verdict, OfARunThatGoesOnOrWasStoppedThereIsNone) {
  for (const auto& log : {converged(), converged(3), converged(25, 0.01)}) {
    EXPECT_EQ(log.judged(/*finished=*/false).word, "");
    EXPECT_EQ(log.judged(/*finished=*/false).text, "");
  }
  EXPECT_EQ(Log().word(), "") << "nothing was written down";
}

TEST(Verdict, CollapsedByTheShareOfCodesInUse) {
  EXPECT_EQ(converged(25, 0.101).word(), "fine");
  EXPECT_EQ(converged(25, 0.099).judged().text,
            "collapsed (9.9 % of the codes in use); PSNR 25.00 dB, a grey picture 12.00 dB");
  EXPECT_EQ(verdict_of(parse_run_log(converged(25, 0.099).text()), true, 0.05).word, "fine");
}

TEST(Verdict, FewTokensCannotUseAllCodes) {
  Log log;
  log.used = 0.05;
  log.psnr(80, 25).psnr(100, 25).grey(12, /*tokens=*/5);  // of 100 codes
  EXPECT_EQ(log.word(), "fine");
  log.grey(12, /*tokens=*/60);
  EXPECT_EQ(log.word(), "collapsed") << "6 of 60 were to be used";
}

TEST(Verdict, DivergedIsWorseThanAGreyPicture) {
  Log log;
  log.used = 0.01;
  log.errors(300, 3).psnr(100, 5.8).grey(11.93);
  EXPECT_EQ(log.judged().text,
            "diverged (reconstructions are worse than a grey picture: PSNR 5.80 dB against 11.93 "
            "dB); 1 % of the codes in use; try a lower optimizer.lr in a new run");
  // Above the least that a grey picture has; the error was large at the end, though it falls.
  EXPECT_EQ(Log().errors(300, 3).psnr(100, 8).grey(11.93).word(), "diverged");
  // It does not fall.
  EXPECT_EQ(Log().errors(0.6, 0.6).psnr(100, 8).grey(11.93).word(), "diverged");
  EXPECT_EQ(Log().errors(0.6, 0.6).psnr(100, 11.6).grey(11.93).word(), "fine") << "about as good";
}

TEST(Verdict, AFewStepsAreNoDivergence) {
  const auto log = Log().errors(0.6, 0.3).psnr(100, 10.6).grey(11.93);
  EXPECT_EQ(log.judged().text,
            "undertrained (reconstructions are not better than a grey picture yet: PSNR 10.60 dB "
            "against 11.93 dB); 90 % of the codes in use; the training error still falls, by 25 % "
            "for twice the steps");
  EXPECT_EQ(Log().psnr(1, 10.6).grey(11.93).word(), "undertrained") << "one step";
  EXPECT_EQ(Log().psnr(2, 10.6).psnr(3, 10.6).grey(11.93, 1000, 3).word(), "undertrained")
      << "hardly better than a step ago";
  EXPECT_EQ(Log().psnr(20, 10.6).psnr(30, 10.6).grey(11.93, 1000, 30).word(), "diverged");
  EXPECT_EQ(Log().psnr(2, 5.8).psnr(3, 5.8).grey(11.93, 1000, 3).word(), "diverged");
}

TEST(Verdict, DivergedByWhatIsNotFinite) {
  EXPECT_EQ(converged().add("epoch", 101, "\"loss\":null").judged().text,
            "diverged (the training loss is not finite); 90 % of the codes in use; try a lower "
            "optimizer.lr in a new run");
  EXPECT_EQ(converged().add("step", 101, "\"loss\":null").word(), "diverged");
  EXPECT_EQ(converged().add("eval", 101, "\"psnr\":null").word(), "diverged");
  EXPECT_EQ(converged().add("epoch", 101, "\"loss\":null").add("epoch", 102, "\"loss\":1").word(),
            "fine")
      << "it went on";
  // The run was ended by it, so it has not finished.
  auto ended = converged();
  ended.add("alarm", 101, "\"sign\":\"nonfinite\",\"reason\":\"step 101: non-finite\"");
  EXPECT_EQ(ended.judged(/*finished=*/false).text,
            "diverged (numbers that were not finite ended training at step 101); try a lower "
            "optimizer.lr in a new run");
  ended.add("step", 110, "\"loss\":1");
  EXPECT_EQ(ended.judged(/*finished=*/false).word, "") << "it was resumed";
}

/// A fork may be evaluated on other images than the run before it.
TEST(Verdict, ComparesEvaluationsOfTheSameImages) {
  const auto described = [](double grey) {
    return fmt::format("\"grey_psnr\":{},\"images\":9,\"codes\":100,\"tokens\":900", grey);
  };
  Log log;
  log.psnr(40, 20).add("validation", 40, described(12)).psnr(70, 22).psnr(90, 30);
  auto forked = log;
  EXPECT_EQ(log.psnr(100, 30.05).word(), "undertrained");
  forked.add("validation", 90, described(15)).psnr(100, 30.05);
  EXPECT_EQ(forked.judged().text,
            "fine (PSNR 30.05 dB, a grey picture 15.00 dB); 90 % of the codes in use");
}

TEST(Verdict, UndertrainedWherePsnrStillRises) {
  Log log;
  log.psnr(40, 20).psnr(80, 22).psnr(100, 23).grey(12);
  EXPECT_EQ(log.judged().text,
            "undertrained (PSNR still rises, by 3.1 dB for twice the steps); PSNR 23.00 dB, a grey "
            "picture 12.00 dB; 90 % of the codes in use");
  // By the last fifth of the steps, not by all of them.
  EXPECT_EQ(Log().psnr(40, 15).psnr(80, 22.95).psnr(100, 23).grey(12).word(), "fine");
  EXPECT_EQ(Log().psnr(40, 15).psnr(80, 22.85).psnr(100, 23).grey(12).word(), "undertrained");
  EXPECT_EQ(Log().psnr(80, 24).psnr(100, 23).grey(12).word(), "fine") << "it falls";
}

TEST(Verdict, WithOneEvaluationTheTrainingErrorTells) {
  const auto log = Log().errors(0.6, 0.1).psnr(100, 15).grey(12);
  EXPECT_EQ(log.word(), "undertrained");
  EXPECT_NE(log.judged().text.find("the training error still falls, by "), std::string::npos);
  EXPECT_EQ(Log().errors(0.1, 0.1).psnr(100, 15).grey(12).word(), "fine");
  EXPECT_EQ(Log().psnr(100, 15).grey(12).word(), "fine") << "nothing tells";
}

TEST(Verdict, RemarksHoldBesideIt) {
  auto log = converged(25, 0.01);
  log.add("step", 170, "\"l1\":0.1,\"discriminator\":1");
  log.add("step", 185, "\"l1\":0.1,\"discriminator\":0.003");
  log.add("step", 200, "\"l1\":0.1,\"discriminator\":0.005");
  log.add("epoch", 200, "\"loss\":0.1,\"skipped\":3").psnr(150, 20).psnr(200, 25);
  EXPECT_EQ(log.judged().text,
            "collapsed (1 % of the codes in use); PSNR 25.00 dB, a grey picture 12.00 dB; PSNR "
            "still rises, by 12.0 dB for twice the steps; the discriminator wins: its loss is "
            "0.004; steps skipped as not finite: 3");
}

TEST(Verdict, ADiscriminatorThatHoldsIsNotSpokenOf) {
  auto log = converged();
  log.add("step", 101, "\"l1\":0.1,\"discriminator\":0.7");
  EXPECT_EQ(log.judged().text.find("discriminator"), std::string::npos) << log.judged().text;
}

/// Logs of versions that did not describe the validation images and had no meter of directions.
TEST(Verdict, OfALogOfAnEarlierVersion) {
  const auto old = [](double psnr, double used, double used_in_training) {
    Log log;
    log.used = used;
    log.psnr(40, psnr).psnr(80, psnr).psnr(100, psnr);
    log.add("epoch", 100, fmt::format("\"loss\":1,\"utilisation\":{}", used_in_training));
    return log;
  };
  EXPECT_EQ(old(25, 0.9, 0.9).judged().text, "fine (PSNR 25.00 dB); 90 % of the codes in use");
  EXPECT_EQ(old(4.59, 0.9, 0.9).judged().text,
            "diverged (reconstructions are worse than a grey picture: PSNR 4.59 dB against at "
            "least 6.02 dB); 90 % of the codes in use; try a lower optimizer.lr in a new run");
  EXPECT_EQ(old(7, 0.9, 0.9).word(), "fine") << "how good a grey picture is, nobody knows";
  EXPECT_EQ(old(25, 0.03, 0.04).word(), "collapsed");
  EXPECT_EQ(old(25, 0.03, 0.4).word(), "fine") << "there may be few validation images";
  EXPECT_EQ(Log().add("epoch", 9, "\"loss\":1,\"utilisation\":0.01").word(), "collapsed");
}

TEST(Verdict, OfLatentDiffusion) {
  const auto losses = [](double first, double last, double before, double end) {
    return Log()
        .add("step", 10, fmt::format("\"loss\":{}", first))
        .add("step", 100, fmt::format("\"loss\":{}", last))
        .add("eval", 50, fmt::format("\"loss\":{}", before))
        .add("eval", 100, fmt::format("\"loss\":{}", end));
  };
  EXPECT_EQ(losses(1, 0.2, 0.205, 0.2).judged().text, "fine (validation loss 0.2)");
  EXPECT_EQ(losses(1, 0.2, 0.25, 0.2).judged().text,
            "undertrained (the validation loss still falls, by 20 % for twice the steps); "
            "validation loss 0.2");
  EXPECT_EQ(
      losses(1, 35, 2, 30).judged().text,
      "diverged (the training loss has grown from 1 to 35); try a lower optimizer.lr in a new "
      "run");
  EXPECT_EQ(losses(1, 1, 1, 1).add("eval", 101, "\"loss\":null").word(), "diverged");
}

TEST(Verdict, TheRunsOwnSettingCounts) {
  const TemporaryFolder folder;
  const auto run = folder / "run";
  std::filesystem::create_directories(run);
  EXPECT_EQ(verdict_of_run(run, true).word, "") << "no log";
  std::ofstream(run / "metrics.jsonl") << converged(25, 0.05).text();
  EXPECT_EQ(verdict_of_run(run, true).word, "collapsed") << "no settings";
  std::ofstream(run / "config.yaml") << "alarm:\n  utilisation: 0.02\n";
  EXPECT_EQ(verdict_of_run(run, true).word, "fine");
  EXPECT_EQ(verdict_of_run(run, false).word, "");
  std::ofstream(run / "config.yaml") << "alarm: [\n";
  EXPECT_EQ(verdict_of_run(run, true).word, "collapsed") << "damaged settings";
}

TEST(Trend, GainsAreForTwiceTheSteps) {
  const Trend psnr{"PSNR", TrendOf::decibels, {{0, 5}, {25, 20}, {50, 23}, {100, 24}}};
  EXPECT_DOUBLE_EQ(gain_of_evaluations(psnr, 0.2), 1);
  EXPECT_DOUBLE_EQ(gain_of_evaluations(psnr, 0.6), 2);
  EXPECT_TRUE(std::isnan(gain_of_evaluations(psnr, 0.8))) << "at step 0 nothing is trained";
  EXPECT_TRUE(std::isnan(gain_of_evaluations({}, 0.2)));
  Trend error{"the error", TrendOf::squared_error, {{10, 9}, {30, 4}, {50, 6}, {60, 1}, {100, 0}}};
  EXPECT_NEAR(gain_of_steps(error, 100), 10, 1e-12);
  EXPECT_EQ(gain_in_words(error, 10), "the error still falls, by 90 % for twice the steps");
  error.of = TrendOf::absolute_error;
  EXPECT_NEAR(gain_of_steps(error, 100), 20, 1e-12);
  error.points = {{60, 1}};
  EXPECT_TRUE(std::isnan(gain_of_steps(error, 100)));
}

TEST(ThinnedLog, KeepsAllButLinesOfSteps) {
  const TemporaryFolder folder;
  Log log;
  for (int step = 1; step <= 5000; ++step) log.add("step", step, "\"loss\":1,\"l1\":0.25");
  log.psnr(2500, 20).psnr(5000, 21).grey(12);
  std::ofstream(folder / "metrics.jsonl") << log.text();
  const auto whole = read_run_log(folder / "metrics.jsonl");
  const auto same = read_thinned_run_log(folder / "metrics.jsonl");
  const auto thinned = read_thinned_run_log(folder / "metrics.jsonl", 1 << 15);
  EXPECT_EQ(same.records.size(), whole.records.size()) << "not long";
  EXPECT_LT(thinned.of_kind("step").size(), 2000u);
  EXPECT_EQ(thinned.of_kind("step").front()->step, 1);
  EXPECT_EQ(thinned.of_kind("step").back()->step, 5000);
  EXPECT_EQ(thinned.of_kind("eval").size(), 2u);
  EXPECT_EQ(verdict_of(thinned, true).text, verdict_of(whole, true).text);
}

}  // namespace
}  // namespace nsvq
