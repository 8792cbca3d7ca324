#include "nsvq/report/report.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "nsvq/core/error.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/images/image.h"
#include "nsvq/report/page.h"
#include "nsvq/report/samples.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

/// How often `part` occurs in `text`.
int count(std::string_view text, std::string_view part) {
  int found = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size()))
    ++found;
  return found;
}

class Report : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    run_ = fs::temp_directory_path() / ("nsvq-report-" + name + "-" + std::to_string(::getpid()));
    fs::create_directories(run_ / "samples");
  }
  void TearDown() override { fs::remove_all(run_); }

  void put(const std::string& name, const std::string& text) { std::ofstream(run_ / name) << text; }
  void put_sample(const std::string& name, int shade) {
    const Image image{4, 2, std::vector<uint8_t>(24, static_cast<uint8_t>(shade))};
    write_image(run_ / "samples" / name, image);
  }
  std::string sample_uri(const std::string& name) {
    return data_uri("image/png", read_file(run_ / "samples" / name));
  }
  /// What the page shows, as a browser would read it.
  nlohmann::json page() {
    write_report(run_);
    return data_of(read_text(run_ / "report.html")).at("runs").at(0);
  }
  static nlohmann::json data_of(const std::string& html) {
    EXPECT_EQ(count(html, "<script"), 2) << "data and the page's own alone";
    EXPECT_EQ(count(html, "</script"), 2);
    EXPECT_EQ(count(html, "src=\"") + count(html, "href="), 1) << "nothing to fetch";
    EXPECT_EQ(count(html, "href=\"data:,\""), 1);
    const std::string start = "<script type=\"application/json\" id=\"data\">";
    const auto begin = html.find(start) + start.size();
    return nlohmann::json::parse(html.substr(begin, html.find("</script>", begin) - begin));
  }
  static std::string notices(const nlohmann::json& run) { return run.at("notices").dump(); }

  fs::path run_;
};

const char* metrics = R"({"kind":"phase","step":0,"epoch":1,"phase":"stage1","reason":"start"}
{"kind":"step","step":20,"epoch":1,"phase":"stage1","loss":0.5,"l1":0.2,"vq":0.1,"commitment":0.05,"images_per_second":120}
{"kind":"epoch","step":32,"epoch":1,"phase":"stage1","loss":0.4,"utilisation":0.35,"perplexity":200,"seconds":20}
{"kind":"eval","step":32,"epoch":1,"phase":"stage1","psnr":15.25,"ssim":0.4,"utilisation":0.9,"odd":7}
{"kind":"eval","step":64,"epoch":2,"phase":"stage1","psnr":17.5,"ssim":0.6,"utilisation":0.8}
{"kind":"phase","step":64,"epoch":3,"phase":"warmup","reason":"frozen: 1 < 2 & so on"}
{"kind":"eval","step":96,"epoch":3,"phase":"warmup","psnr":16.75,"ssim":null,"utilisation":0.7,"odd":8}
)";

TEST_F(Report, ReloadsWhileTheRunGoesOn) {
  put("metrics.jsonl", metrics);
  const auto reloads = [&](bool goes_on) {
    write_report(run_, goes_on ? "running" : "stopped");
    return count(read_text(run_ / "report.html"), "http-equiv=\"refresh\"");
  };
  EXPECT_EQ(reloads(true), 1);
  EXPECT_EQ(reloads(false), 0);
}

TEST_F(Report, SaysHowAFinishedRunWent) {
  put("metrics.jsonl", metrics);
  const auto verdict = [&](const std::string& state) {
    write_report(run_, state);
    return data_of(read_text(run_ / "report.html")).at("runs").at(0).at("verdict");
  };
  EXPECT_EQ(verdict("finished").at("word"), "fine");
  EXPECT_EQ(verdict("finished").at("text"), "fine (PSNR 16.75 dB); 70 % of the codes in use");
  for (const auto* state : {"running", "stopped", ""}) EXPECT_EQ(verdict(state).at("word"), "");
  put("config.yaml", "alarm:\n  utilisation: 0.8\n");
  EXPECT_EQ(verdict("finished").at("word"), "collapsed");
}

TEST_F(Report, ShowsTheRun) {
  put("config.yaml", "seed: 7\nmodel:\n  multipliers: [1, 2]\n");
  put("metrics.jsonl", metrics);
  for (int epoch = 1; epoch <= 5; ++epoch)
    put_sample("epoch-000" + std::to_string(epoch) + ".png", epoch * 40);
  const auto run = page();
  EXPECT_EQ(run.at("name"), run_.filename().string());
  EXPECT_EQ(run.at("facts"), "3 epochs, 96 steps, 20 s of training, phase warmup");
  EXPECT_EQ(run.at("results").at(0).at("title"), "PSNR");
  EXPECT_EQ(run.at("results").at(0).at("last").at("text"), "16.75 dB");
  EXPECT_EQ(run.at("results").at(0).at("best").at("epoch"), 2);
  EXPECT_EQ(run.at("phases").at(1).at("reason"), "frozen: 1 < 2 & so on");
  EXPECT_EQ(run.at("settings").at("seed"), "7");
  EXPECT_EQ(run.at("settings").at("model.multipliers"), "[1, 2]");
  EXPECT_EQ(run.at("config"), "seed: 7\nmodel:\n  multipliers: [1, 2]\n");
  EXPECT_EQ(run.at("notices").size(), 0u) << run.at("notices");
  EXPECT_EQ(run.at("clock").at("step"), nlohmann::json({0, 32}));
  EXPECT_EQ(run.at("clock").at("time"), nlohmann::json({0, 20}));
  ASSERT_EQ(run.at("pictures").size(), 5u);
  EXPECT_EQ(run.at("pictures").at(4).at("epoch"), 5);
  EXPECT_EQ(run.at("pictures").at(4).at("source"), sample_uri("epoch-0005.png"));
}

TEST_F(Report, TheSettingsSayWhetherPicturesArePairs) {
  put("metrics.jsonl", metrics);
  EXPECT_EQ(page().at("generated"), false) << "without settings";
  put("config.yaml", "model:\n  multipliers: [1, 2]\n");
  EXPECT_EQ(page().at("generated"), false);
  put("config.yaml", "seed: 7\nunet.width: 8\n");
  EXPECT_EQ(page().at("generated"), true);
}

TEST_F(Report, CurvesStandUnderTopics) {
  put("metrics.jsonl", metrics);
  std::set<std::string> topics;
  const auto run = page();
  for (const auto& chart : run.at("charts")) {
    topics.insert(chart.at("topic"));
    for (const auto& line : chart.at("lines"))
      EXPECT_EQ(line.at("x").size(), line.at("y").size()) << chart.at("title");
    if (chart.at("title") != "PSNR") continue;
    EXPECT_EQ(chart.at("lines").at(0).at("x"), nlohmann::json({32, 64, 96}));
    EXPECT_EQ(chart.at("lines").at(0).at("y"), nlohmann::json({15.25, 17.5, 16.75}));
  }
  EXPECT_EQ(topics, (std::set<std::string>{"Quality", "Codebook", "Losses", "Gradients and speed",
                                           "Other"}));
}

TEST_F(Report, ALongLogMakesASmallPage) {
  std::string text;
  for (int i = 1; i <= 100'000; ++i)
    text += fmt::format(R"({{"kind":"step","step":{},"loss":{}}})"
                        "\n",
                        i, i == 54'321 ? 1e6 : 1.0 / i);
  put("metrics.jsonl", text);
  const auto run = page();
  EXPECT_LT(fs::file_size(run_ / "report.html"), 200'000u);
  const auto& y = run.at("charts").at(0).at("lines").at(0).at("y");
  EXPECT_LE(y.size(), 2002u);
  EXPECT_NE(std::find(y.begin(), y.end(), 1e6), y.end()) << "the peak is kept";
  EXPECT_EQ(run.at("charts").at(0).at("lines").at(0).at("mean").size(), y.size());
}

TEST_F(Report, Alarms) {
  put("metrics.jsonl", metrics);
  EXPECT_TRUE(page().at("alarms").empty());
  put("metrics.jsonl",
      std::string(metrics) +
          R"({"kind":"alarm","step":96,"epoch":3,"sign":"one_hot","reason":"tau < 1 & so on"}
{"kind":"alarm","step":96,"epoch":3,"sign":"latent_norm","reason":"the norm"}
{"kind":"alarm","step":128,"epoch":4,"sign":"latent_norm","reason":"the norm still"}
)");
  const auto alarms = page().at("alarms");
  ASSERT_EQ(alarms.size(), 2u);
  EXPECT_EQ(alarms.at(0).at("text"), "tau < 1 & so on");
  EXPECT_EQ(alarms.at(1).at("when"), "epochs 3 to 4");
  EXPECT_EQ(alarms.at(1).at("steps"), nlohmann::json({96, 128}));
}

TEST_F(Report, ChecksAreHistograms) {
  put("metrics.jsonl", metrics);
  EXPECT_TRUE(page().at("checks").is_null());
  put("metrics.jsonl",
      std::string(metrics) +
          R"({"kind":"check","step":97,"epoch":4,"index_mismatch":0,"loss_error":3e-7,"new_error":1}
{"kind":"check","step":98,"epoch":4,"index_mismatch":0.0004,"loss_error":4e-7,"new_error":null}
)");
  const auto checks = page().at("checks");
  EXPECT_EQ(checks.at("count"), 2);
  ASSERT_EQ(checks.at("histograms").size(), 3u);
  EXPECT_EQ(checks.at("histograms").at(0).at("bars").at(0).at("range"), "exactly 0");
  EXPECT_EQ(checks.at("histograms").at(1).at("bars").at(0).at("count"), 2);
  EXPECT_EQ(checks.at("histograms").at(2).at("title"), "new_error");
}

TEST_F(Report, PicturesAreChosenByEpochNotByName) {
  put_sample("epoch-10000.png", 1);
  put_sample("epoch-9999.png", 2);
  put_sample("epoch-x.png", 3);
  put_sample("other.png", 4);
  const auto pictures = page().at("pictures");
  ASSERT_EQ(pictures.size(), 2u);
  EXPECT_EQ(pictures.at(0).at("epoch"), 9999);
  EXPECT_EQ(pictures.at(1).at("source"), sample_uri("epoch-10000.png"));
}

TEST_F(Report, OfManyPicturesTheLastTheFirstAndMoreOfTheEarlyOnes) {
  for (int epoch = 1; epoch <= 100; ++epoch)
    put_sample(fmt::format("epoch-{:04}.png", epoch), epoch);
  const auto run = page();
  const auto& pictures = run.at("pictures");
  EXPECT_EQ(pictures.size(), 24u);
  EXPECT_EQ(run.at("pictures_left_out"), 76);
  EXPECT_EQ(pictures.front().at("epoch"), 1);
  EXPECT_EQ(pictures.back().at("epoch"), 100);
  EXPECT_LT(pictures.at(12).at("epoch"), 50);
}

TEST_F(Report, SaysWhatIsMissing) {
  auto text = notices(page());
  EXPECT_EQ(count(text, "metrics.jsonl is missing"), 1);
  EXPECT_EQ(count(text, "config.yaml is missing"), 1);
  EXPECT_EQ(count(text, "samples/ has no epoch-NNNN.png"), 1);
  fs::remove_all(run_ / "samples");
  EXPECT_EQ(count(notices(page()), "samples/ has no epoch-NNNN.png"), 1);
  put("metrics.jsonl", "");
  EXPECT_EQ(count(notices(page()), "has no records yet"), 1);
  put("metrics.jsonl", "{\"kind\":\"step\",\"step\":1,\"loss\":2}\n");
  EXPECT_EQ(count(notices(page()), "has no evaluation yet"), 1);
  put("config.yaml", "a: [1\n");
  EXPECT_EQ(count(notices(page()), "settings are not compared"), 1);
}

TEST_F(Report, TornMetricsAreNoted) {
  put("metrics.jsonl", std::string(metrics) + "{\"kind\":\"step\",\"step\":12");
  const auto run = page();
  EXPECT_EQ(count(notices(run), "1 line of metrics.jsonl could not be read"), 1);
  EXPECT_EQ(run.at("results").at(0).at("last").at("text"), "16.75 dB");
}

TEST_F(Report, TornPicturesAreNoted) {
  put_sample("epoch-0001.png", 1);
  fs::resize_file(run_ / "samples" / "epoch-0001.png",
                  fs::file_size(run_ / "samples" / "epoch-0001.png") - 5);
  put("samples/epoch-0002.png", "");
  fs::create_directory(run_ / "samples" / "epoch-0003.png");
  const auto run = page();
  EXPECT_TRUE(run.at("pictures").empty());
  EXPECT_EQ(count(notices(run), "cannot be shown"), 3);
}

TEST_F(Report, NothingInTheFilesBecomesMarkup) {
  const std::string evil = "</script><script>alert(1)</script><!--\u2028";
  put("config.yaml", "train: '" + evil + "' & more\n");
  put("metrics.jsonl", "{\"kind\":\"phase\",\"step\":0,\"phase\":\"" + evil + "\",\"reason\":\"" +
                           evil + "\"}\n{\"kind\":\"eval\",\"step\":1,\"" + evil + "\":1}\n");
  const fs::path folder = run_ / "<b>&";
  fs::create_directories(folder);
  fs::copy(run_ / "metrics.jsonl", folder / "metrics.jsonl");
  fs::copy(run_ / "config.yaml", folder / "config.yaml");
  write_report(folder);
  const auto html = read_text(folder / "report.html");
  const auto run = data_of(html).at("runs").at(0);  // counts the elements
  EXPECT_EQ(run.at("phase"), evil);
  EXPECT_EQ(count(html, "<!--") + count(html, "\u2028") + count(html, "<b>"), 0);
  EXPECT_EQ(count(html, "<title>&lt;b&gt;&amp;</title>"), 1);
}

TEST_F(Report, SeveralRunsOnOnePage) {
  put("metrics.jsonl", metrics);
  const fs::path other = run_ / "other";
  fs::create_directories(other);
  fs::copy(run_ / "metrics.jsonl", other / "metrics.jsonl");
  std::vector<PageRun> runs = {{run_, "a", "finished", {}, ""}, {other, "b", "running", {}, ""}};
  runs[1].codes = CodeMap{.model = "step-7",
                          .codes = 2,
                          .code = {0, 1},
                          .x = {0, 1},
                          .y = {1, 0.5F},
                          .no_map = "",
                          .epoch = 3,
                          .grid_height = 1,
                          .grid_width = 2,
                          .tokens = {{1, 0}},
                          .no_tokens = ""};
  write_page(run_ / "page.html", runs);
  const auto data = data_of(read_text(run_ / "page.html"));
  EXPECT_EQ(data.at("title"), "a and b");
  EXPECT_EQ(data.at("live"), false);
  EXPECT_EQ(data.at("topics").at(0), "Quality");
  ASSERT_EQ(data.at("runs").size(), 2u);
  EXPECT_EQ(data.at("runs").at(1).at("state"), "running");
  EXPECT_TRUE(data.at("runs").at(0).at("codes").is_null());
  const auto& codes = data.at("runs").at(1).at("codes");
  EXPECT_EQ(codes.at("x"), nlohmann::json({0, 4095}));
  EXPECT_EQ(codes.at("tokens"), nlohmann::json({{1, 0}}));
}

TEST_F(Report, NamesTheFolderHoweverItIsWritten) {
  const auto name = run_.filename().string();
  EXPECT_EQ(run_name(run_ / ""), name);
  EXPECT_EQ(run_name(run_ / "samples" / ".."), name);
}

TEST_F(Report, RefusesWhatIsNoFolder) {
  EXPECT_THROW(write_report(run_ / "nowhere"), UserError);
  put("file", "");
  EXPECT_THROW(write_report(run_ / "file"), UserError);
}

TEST(Samples, AsManyAsAskedForInOrderWithTheLast) {
  for (int64_t count = 0; count <= 40; ++count) {
    std::vector<SampleFile> all;
    for (int64_t i = 0; i < count; ++i) all.push_back({i, ""});
    for (size_t most = 1; most <= 41; ++most) {
      const auto chosen = chosen_samples(all, most);
      ASSERT_EQ(chosen.size(), std::min(most, all.size()));
      if (count > 0) EXPECT_EQ(chosen.back().epoch, count - 1);
      if (most > 1 && count > 0) EXPECT_EQ(chosen.front().epoch, 0);
      for (size_t i = 1; i < chosen.size(); ++i) ASSERT_LT(chosen[i - 1].epoch, chosen[i].epoch);
    }
  }
}

TEST(Page, TextThatIsNotUtf8IsReplaced) {
  EXPECT_EQ(script_json({{"a", "\xff<"}}), "{\"a\":\"\uFFFD\\u003c\"}");
}

}  // namespace
}  // namespace nsvq
