#include "nsvq/runs/log.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/metrics/metric.h"
#include "nsvq/report/curves.h"
#include "nsvq/report/summary.h"

namespace nsvq {
namespace {

std::vector<double> steps(const RunLog& log, const std::string& kind) {
  std::vector<double> out;
  for (const Record* record : log.of_kind(kind)) out.push_back(record->step);
  return out;
}

TEST(RunLog, ReadsRecords) {
  const RunLog log = parse_run_log(
      "{\"kind\":\"step\",\"step\":20,\"epoch\":1,\"phase\":\"stage1\",\"loss\":0.5,\"note\":\"x\","
      "\"deep\":[1]}\n"
      "\n"
      "{\"kind\":\"epoch\",\"step\":32,\"epoch\":1,\"loss\":null}\r\n");
  ASSERT_EQ(log.records.size(), 2u);
  EXPECT_EQ(log.unreadable, 0);
  EXPECT_EQ(log.records[0].phase, "stage1");
  ASSERT_EQ(log.records[0].values.size(), 1u);
  EXPECT_EQ(log.records[0].values.find("loss")->second, 0.5);
  EXPECT_TRUE(std::isnan(log.records[1].values.find("loss")->second));
  EXPECT_EQ(log.last_step(), 32);
  EXPECT_EQ(log.last_epoch(), 1);
}

TEST(RunLog, CountsWhatItCannotRead) {
  for (const char* bad :
       {"{\"kind\":\"step\",\"st", "[]", "7", "null", "{}", "{\"kind\":\"step\"}", "{\"step\":3}",
        "{\"kind\":3,\"step\":3}", "{\"kind\":\"step\",\"step\":null}",
        "{\"kind\":\"step\",\"step\":-1}", "{\"kind\":\"step\",\"step\":\"3\"}", "\xff\xfe",
        "{\"kind\":\"\xff\",\"step\":3}"}) {
    const RunLog log = parse_run_log(std::string("{\"kind\":\"step\",\"step\":1}\n") + bad);
    EXPECT_EQ(log.records.size(), 1u) << bad;
    EXPECT_EQ(log.unreadable, 1) << bad;
  }
  EXPECT_EQ(parse_run_log("").unreadable, 0);
}

TEST(RunLog, ReadsAFileLineByLine) {
  const TemporaryFolder folder;
  const std::string good = "{\"kind\":\"step\",\"step\":1,\"loss\":2}\n";
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']') + "\n";
  const std::string endless = "{\"kind\":\"" + std::string(3 << 20, 'x') + "\",\"step\":2}\n";
  write_text(folder / "metrics.jsonl", deep + endless + good + "\n{");
  const RunLog log = read_run_log(folder / "metrics.jsonl");
  EXPECT_EQ(log.unreadable, 3);
  EXPECT_EQ(log.values("step", "loss"), (std::vector<std::pair<double, double>>{{1, 2}}));
  EXPECT_THROW(read_run_log(folder / "none"), UserError);
}

TEST(RunLog, EveryCutOfTheLastLineIsTolerated) {
  const std::string whole =
      "{\"kind\":\"step\",\"step\":20}\n{\"kind\":\"step\",\"step\":40,\"loss\":1}\n";
  for (size_t size = 27; size < whole.size(); ++size)
    EXPECT_GE(parse_run_log(whole.substr(0, size)).records.size(), 1u);
}

TEST(RunLog, AResumedRunOverwritesWhatItRepeats) {
  const RunLog log = parse_run_log(R"({"kind":"step","step":20}
{"kind":"epoch","step":32,"loss":1}
{"kind":"eval","step":32}
{"kind":"step","step":40}
{"kind":"step","step":60}
{"kind":"epoch","step":64,"loss":2}
{"kind":"phase","step":64,"phase":"warmup"}
{"kind":"step","step":40}
{"kind":"step","step":60}
{"kind":"epoch","step":64,"loss":3}
{"kind":"epoch","step":64,"loss":4}
)");
  EXPECT_EQ(steps(log, "step"), (std::vector<double>{20, 40, 60}));
  EXPECT_EQ(steps(log, "epoch"), (std::vector<double>{32, 64}));
  EXPECT_EQ(steps(log, "eval"), (std::vector<double>{32}));
  EXPECT_EQ(steps(log, "phase"), (std::vector<double>{}));
  EXPECT_EQ(log.values("epoch", "loss").back().second, 4);
}

/// What RecordList keeps, found by comparing every record with all later ones.
std::vector<Record> plain_records(const std::vector<Record>& all) {
  const auto repeats = [](const Record& later, const Record& earlier) {
    if (later.kind != earlier.kind) return false;
    if (later.step != earlier.step) return later.step < earlier.step;
    if (later.kind == "phase") return later.phase == earlier.phase;
    return later.kind != "alarm" || later.sign == earlier.sign;
  };
  std::vector<Record> kept;
  for (const Record& next : all) {
    const auto same = [&](const Record& record) { return repeats(next, record); };
    if (std::any_of(kept.begin(), kept.end(), same)) {
      std::erase_if(kept, [&](const Record& record) {
        return record.step > next.step || repeats(next, record);
      });
    }
    kept.push_back(next);
  }
  return kept;
}

TEST(RunLog, ForgetsWhatThePlainVersionForgets) {
  std::mt19937 random(1);
  const std::vector<std::string> kinds = {"step", "eval", "phase", "alarm", "moon"};
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<Record> all;
    RecordList list;
    for (int i = 0; i < 60; ++i) {
      Record record;
      record.kind = kinds[random() % kinds.size()];
      record.step = static_cast<double>(i / 6 + random() % 4);
      record.phase = record.sign = random() % 2 == 0 ? "a" : "b";
      record.epoch = i;  // tells them apart
      all.push_back(record);
      list.add(record);
    }
    std::vector<double> kept, expected;
    for (const Record& record : list.take()) kept.push_back(record.epoch);
    for (const Record& record : plain_records(all)) expected.push_back(record.epoch);
    ASSERT_EQ(kept, expected) << trial;
  }
}

/// Minutes if the time grew with the square of the number of kinds, of signs or of repeats.
TEST(RunLog, TakesAnyNumberOfKindsSignsAndRepeats) {
  std::string text;
  const int many = 100'000;
  for (int i = 0; i < many; ++i)
    text += fmt::format("{{\"kind\":\"k{}\",\"step\":1,\"v{}\":1}}\n", i, i);
  for (int i = 0; i < many; ++i)
    text += fmt::format("{{\"kind\":\"alarm\",\"step\":1,\"sign\":\"s{}\"}}\n", i);
  for (int i = 0; i < many; ++i) text += "{\"kind\":\"step\",\"step\":1}\n";
  const RunLog log = parse_run_log(text);
  EXPECT_EQ(log.records.size(), 2u * many + 1);
  EXPECT_EQ(raised_alarms(log).size(), static_cast<size_t>(many));
  const auto groups = make_curves(log);
  EXPECT_EQ(groups.back().title, "Other (60 of 100000)");
  EXPECT_EQ(groups.back().charts.size(), 60u);
}

TEST(RunLog, TakesKindsItDoesNotKnow) {
  const RunLog log = parse_run_log(
      R"({"kind":"alarm","step":64,"epoch":2,"phase":"p","sign":"one_hot","reason":"r"}
{"kind":"drift","step":64,"epoch":2,"phase":"p","drift":0.5,"churn":null}
{"kind":"moon","step":65,"phase":"p","light":0.3,"text":"t"}
)");
  EXPECT_EQ(log.unreadable, 0);
  EXPECT_EQ(log.of_kind("alarm").at(0)->sign, "one_hot");
  EXPECT_EQ(log.of_kind("alarm").at(0)->reason, "r");
  EXPECT_EQ(log.values("drift", "drift").at(0).second, 0.5);
  EXPECT_EQ(log.values("moon", "light").at(0), (std::pair{65.0, 0.3}));
}

TEST(RunLog, AlarmsOfOneStepAreKeptAndNotDoubled) {
  const char* alarms = R"({"kind":"alarm","step":32,"epoch":1,"sign":"a"}
{"kind":"alarm","step":64,"epoch":2,"sign":"a"}
{"kind":"alarm","step":64,"epoch":2,"sign":"b"}
)";
  EXPECT_EQ(parse_run_log(alarms).records.size(), 3u);
  const std::string again = R"({"kind":"alarm","step":64,"epoch":2,"sign":"a","reason":"new"}
{"kind":"alarm","step":64,"epoch":2,"sign":"b"}
)";
  const RunLog log = parse_run_log(alarms + again);
  EXPECT_EQ(steps(log, "alarm"), (std::vector<double>{32, 64, 64}));
  EXPECT_EQ(log.records[1].reason, "new");
}

TEST(RunLog, PhasesIncludeTheUnannouncedFirst) {
  const RunLog silent = parse_run_log(R"({"kind":"step","step":20,"epoch":1,"phase":"stage1"}
{"kind":"phase","step":64,"epoch":3,"phase":"warmup","reason":"r"}
{"kind":"phase","step":64,"epoch":3,"phase":"stage2","reason":"s"}
)");
  const auto phases = silent.phases();
  ASSERT_EQ(phases.size(), 3u);
  EXPECT_EQ(phases[0].phase, "stage1");
  EXPECT_EQ(phases[0].step, 0);
  EXPECT_EQ(phases[2].reason, "s");
  EXPECT_EQ(parse_run_log(R"({"kind":"phase","step":0,"phase":"stage1"}
{"kind":"step","step":1,"phase":"stage1"})")
                .phases()
                .size(),
            1u);
}

std::vector<Chart> charts_of(const std::string& text) {
  std::vector<Chart> charts;
  for (const ChartGroup& group : make_curves(parse_run_log(text)))
    charts.insert(charts.end(), group.charts.begin(), group.charts.end());
  return charts;
}

TEST(Curves, KnownAndUnknownKeys) {
  const auto charts = charts_of(R"({"kind":"step","step":1,"phase":"p","l1":0.2,"l2":0,"speedup":3}
{"kind":"epoch","step":2,"seconds":5,"utilisation":0.5}
{"kind":"eval","step":2,"psnr":20,"utilisation":0.4,"strange":0.3}
{"kind":"alarm","step":2,"sign":"s","count":3}
)");
  std::vector<std::string> titles;
  for (const Chart& chart : charts) {
    titles.push_back(chart.title);
    EXPECT_EQ(chart.series.size(), chart.title == "Codebook utilisation" ? 2u : 1u) << chart.title;
  }
  EXPECT_EQ(titles,
            (std::vector<std::string>{"PSNR", "Codebook utilisation",
                                      "Loss and reconstruction terms", "speedup", "strange"}));
  EXPECT_TRUE(make_curves(RunLog{}).empty());
}

TEST(Curves, ALineIsBrokenWhereNothingWasMeasured) {
  const auto charts = charts_of(R"({"kind":"step","step":1,"lr":1}
{"kind":"step","step":2,"lr":1,"lecam":0.5}
{"kind":"epoch","step":2,"loss":1}
{"kind":"step","step":3,"lr":1,"lecam":0.5}
{"kind":"step","step":4,"lr":1}
{"kind":"step","step":5,"lr":1}
{"kind":"step","step":6,"lr":1,"lecam":0.25}
)");
  for (const Chart& chart : charts) {
    if (chart.title != "Adversarial terms") continue;
    const auto& y = chart.series.at(0).y;
    ASSERT_EQ(y.size(), 4u);
    EXPECT_EQ(y[1], 0.5) << "a line of another kind is no gap";
    EXPECT_TRUE(std::isnan(y[2]));
    EXPECT_EQ(y[3], 0.25);
    return;
  }
  ADD_FAILURE() << "no such chart";
}

TEST(RunLog, WhatACutEpochCountsIsLeftOut) {
  const std::string whole = R"({"kind":"epoch","step":10,"utilisation":0.5,"loss":1})"
                            "\n",
                    cut = R"({"kind":"epoch","step":13,"utilisation":0.2,"loss":2,"cut":1})"
                          "\n";
  const auto log = parse_run_log(whole + cut);
  EXPECT_EQ(log.of_kind_for("epoch", "utilisation").size(), 1u);
  EXPECT_EQ(log.of_kind_for("epoch", "loss").size(), 2u);
  EXPECT_EQ(parse_run_log(cut).of_kind_for("epoch", "utilisation").size(), 1u);
}

TEST(Curves, MetricsOfOneChartShareIt) {
  const auto charts = charts_of(
      R"({"kind":"eval","step":2,"lpips-vgg":0.3,"lpips-alex":0.2,"fid":9,"fd-vgg16":1,"psnr":20,"psnr_pooled":19})");
  std::map<std::string, size_t> lines;
  for (const Chart& chart : charts) lines[chart.title] = chart.series.size();
  EXPECT_EQ(lines, (std::map<std::string, size_t>{
                       {"PSNR", 2}, {"LPIPS", 2}, {"FID", 1}, {"Fréchet distance (fd-vgg16)", 1}}));
}

TEST(Curves, OtherNamesOfAMetricAreDrawnAsIt) {
  const auto charts = charts_of(R"({"kind":"eval","step":2,"lpips":0.3,"rfid":9})");
  ASSERT_EQ(charts.size(), 2u);
  EXPECT_EQ(charts[0].title, "LPIPS");
  EXPECT_EQ(charts[1].title, "FID");
}

TEST(Summary, TheBestIsTheLowestWhereLowerIsBetter) {
  const auto rows = results(parse_run_log(R"({"kind":"eval","step":1,"epoch":1,"fid":9,"ssim":0.1}
{"kind":"eval","step":2,"epoch":2,"fid":7,"ssim":0.3}
{"kind":"eval","step":3,"epoch":3,"fid":8,"ssim":0.2}
)"));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].title, "SSIM") << "the order of the registry";
  EXPECT_EQ(rows[0].best.text, "0.3000");
  EXPECT_EQ(rows[1].title, "FID");
  EXPECT_EQ(rows[1].last.text, "8.00");
  EXPECT_EQ(rows[1].best.text, "7.00");
  EXPECT_EQ(rows[1].best.epoch, 2);
  EXPECT_EQ(rows[1].first.text, "9.00");
}

TEST(Summary, FiguresOfEvaluations) {
  const auto rows = results(parse_run_log(R"({"kind":"eval","step":1,"epoch":1,"psnr":15.25,"odd":7}
{"kind":"eval","step":2,"epoch":2,"psnr":null,"odd":8}
)"));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].last.text, "–");
  EXPECT_EQ(rows[0].best.text, "15.25 dB");
  EXPECT_EQ(rows[1].title, "odd");
  EXPECT_EQ(rows[1].last.text, "8.0000");
  EXPECT_EQ(rows[1].best.text, "–") << "nobody knows which way is up";
  EXPECT_TRUE(results(RunLog{}).empty());
}

TEST(Curves, WhatIsZeroThroughoutIsAbsent) {
  EXPECT_TRUE(charts_of(R"({"kind":"step","step":1,"generator":0,"peak_memory_gib":0})").empty());
  EXPECT_EQ(charts_of(R"({"kind":"drift","step":1,"drift":0})").size(), 1u);  // A frozen encoder.
}

TEST(Curves, TermsOfDifferentSizeGetALogScale) {
  EXPECT_TRUE(charts_of(R"({"kind":"step","step":1,"commitment":0.5,"ns":0.001})").at(0).log_y);
  EXPECT_FALSE(charts_of(R"({"kind":"step","step":1,"commitment":0.5,"ns":0.1})").at(0).log_y);
}

TEST(Summary, Durations) {
  EXPECT_EQ(duration_in_words(0), "0 s");
  EXPECT_EQ(duration_in_words(99.4), "99 s");
  EXPECT_EQ(duration_in_words(100), "2 min");
  EXPECT_EQ(duration_in_words(59.5 * 60), "1 h 0 min");
  EXPECT_EQ(duration_in_words(9060), "2 h 31 min");
  EXPECT_EQ(duration_in_words(std::nan("")), "unknown time");
}

TEST(Summary, FactsGroupDigits) {
  EXPECT_EQ(run_facts(parse_run_log(
                R"({"kind":"epoch","step":1234567,"epoch":1,"phase":"p","seconds":3})")),
            "1 epoch, 1,234,567 steps, 3 s of training, phase p");
  EXPECT_EQ(run_facts(RunLog{}), "");
}

TEST(Summary, FactsCountAlarms) {
  const std::string once = R"({"kind":"alarm","step":5,"epoch":1,"sign":"a"}
{"kind":"alarm","step":9,"epoch":2,"sign":"a"}
)";
  EXPECT_EQ(run_facts(parse_run_log(once)), "2 epochs, 9 steps, 1 alarm");
  const std::string twice = once + R"({"kind":"alarm","step":9,"epoch":2,"sign":"b"}
)";
  EXPECT_EQ(run_facts(parse_run_log(twice)), "2 epochs, 9 steps, 2 alarms");
}

TEST(Alarms, OneEntryASignWithItsEpochs) {
  const auto alarms = raised_alarms(parse_run_log(
      R"({"kind":"alarm","step":1,"epoch":4,"sign":"b","reason":"old"}
{"kind":"alarm","step":2,"epoch":5,"sign":"a","reason":"x"}
{"kind":"alarm","step":2,"epoch":5,"sign":"b","reason":"new"}
{"kind":"alarm","step":3,"epoch":5,"sign":"b","reason":"newest"}
)"));
  ASSERT_EQ(alarms.size(), 2u);
  EXPECT_EQ(alarms[0].sign, "b");
  EXPECT_EQ(alarms[0].reason, "newest");
  EXPECT_EQ(alarms[0].epochs, (std::vector<double>{4, 5}));
  EXPECT_EQ(alarms[0].steps, (std::vector<double>{1, 2}));
  EXPECT_EQ(alarms[1].epochs, (std::vector<double>{5}));
}

TEST(Alarms, EpochsInWords) {
  EXPECT_EQ(epochs_in_words({4}), "epoch 4");
  EXPECT_EQ(epochs_in_words({4, 5, 6}), "epochs 4 to 6");
  EXPECT_EQ(epochs_in_words({4, 5, 9, 12, 13}), "epochs 4 to 5, 9, 12 to 13");
}

}  // namespace
}  // namespace nsvq
