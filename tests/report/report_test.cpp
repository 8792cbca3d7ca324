#include "nsvq/report/report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "markup.h"
#include "nsvq/core/error.h"
#include "nsvq/io/file.h"
#include "nsvq/io/image.h"
#include "nsvq/report/html.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;
using test::count;

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
  std::string page() {
    write_report(run_);
    const std::string html = read_text(run_ / "report.html");
    EXPECT_EQ(test::markup_error(html), "");
    EXPECT_EQ(count(html, "<script"), 1) << "the page's own alone";
    EXPECT_EQ(count(html, "src=\"http") + count(html, "href="), 0);  // nothing to fetch
    return html;
  }

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
    write_report(run_, goes_on);
    return count(read_text(run_ / "report.html"), "http-equiv=\"refresh\"");
  };
  EXPECT_EQ(reloads(true), 1);
  EXPECT_EQ(reloads(false), 0);
}

TEST_F(Report, ShowsTheRun) {
  put("config.yaml", "seed: 7\n");
  put("metrics.jsonl", metrics);
  for (int epoch = 1; epoch <= 5; ++epoch)
    put_sample("epoch-000" + std::to_string(epoch) + ".png", epoch * 40);
  const std::string html = page();
  EXPECT_EQ(count(html, "<title>" + run_.filename().string() + "</title>"), 1);
  EXPECT_EQ(count(html, "<h1>" + run_.filename().string() + "</h1>"), 1);
  EXPECT_EQ(count(html, "3 epochs, 96 steps, 20 s of training, phase warmup"), 1);
  EXPECT_EQ(count(html,
                  "<th scope=\"row\">PSNR</th><td class=\"main\">16.75 dB</td><td>17.50 dB <span "
                  "class=\"quiet\">epoch 2</span></td><td>15.25 dB</td>"),
            1);
  EXPECT_EQ(count(html, "<th scope=\"row\">SSIM</th><td class=\"main\">–</td><td>0.6000"), 1);
  EXPECT_EQ(count(html, "<td class=\"main\">70.0 %</td><td>90.0 %"), 1);
  EXPECT_EQ(
      count(html,
            "<th scope=\"row\">odd</th><td class=\"main\">8.0000</td><td>–</td><td>7.0000</td>"),
      1);
  EXPECT_EQ(count(html, "frozen: 1 &lt; 2 &amp; so on"), 1);
  EXPECT_EQ(count(html, "<pre>seed: 7\n</pre>"), 1);
  EXPECT_EQ(count(html, "class=\"notice\""), 0);
  // Result first, the last picture before the earlier ones, then curves, then the configuration.
  size_t last = 0;
  for (const std::string part :
       {"<table", "Epoch 5", "Epoch 1,", "Epoch 3,", "<svg", "frozen:", "<pre"}) {
    EXPECT_GT(html.find(part), last) << part;
    ASSERT_NE(html.find(part), html.npos) << part;
    last = html.find(part);
  }
}

TEST_F(Report, AlarmsStandAboveEverything) {
  put("metrics.jsonl", metrics);
  const std::string well = page();
  EXPECT_EQ(count(well, "class=\"alarm\"") + count(well, "Alarm, ") + count(well, " alarm"), 0);
  put("metrics.jsonl",
      std::string(metrics) +
          R"({"kind":"alarm","step":96,"epoch":3,"sign":"one_hot","reason":"tau < 1 & so on"}
{"kind":"alarm","step":96,"epoch":3,"sign":"latent_norm","reason":"the norm"}
{"kind":"alarm","step":128,"epoch":4,"sign":"latent_norm","reason":"the norm still"}
)");
  const std::string html = page();
  EXPECT_EQ(count(html, "class=\"alarm\""), 2);
  EXPECT_EQ(count(html, "<strong>Alarm, epoch 3.</strong> tau &lt; 1 &amp; so on</p>"), 1);
  EXPECT_EQ(count(html, "<strong>Alarm, epochs 3 to 4.</strong> the norm still</p>"), 1);
  EXPECT_EQ(count(html, "phase warmup, 2 alarms</p>"), 1);
  EXPECT_LT(html.find("class=\"alarm\""), html.find("<table"));
}

TEST_F(Report, CurvesStandUnderHeadings) {
  put("metrics.jsonl", metrics);
  const std::string html = page();
  for (const std::string title : {"Quality", "Codebook", "Losses", "Gradients and speed", "Other"})
    EXPECT_EQ(count(html, "<h3>" + title + "</h3>\n<div class=\"charts\">\n<svg"), 1) << title;
  EXPECT_EQ(count(html, "<h3>"), 5);
}

TEST_F(Report, ChecksAreHistograms) {
  put("metrics.jsonl", metrics);
  EXPECT_EQ(count(page(), "Fast quantizer path"), 0);
  put("metrics.jsonl",
      std::string(metrics) +
          R"({"kind":"check","step":97,"epoch":4,"index_mismatch":0,"loss_error":3e-7,"new_error":1}
{"kind":"check","step":98,"epoch":4,"index_mismatch":0.0004,"loss_error":4e-7,"new_error":null}
)");
  const std::string html = page();
  EXPECT_EQ(count(html, "Fast quantizer path against the plain one"), 1);
  EXPECT_EQ(count(html, "2 checks of train.check"), 1);
  EXPECT_EQ(count(html, "1e-7 to 1e-6: 2<"), 1);
  EXPECT_EQ(count(html, "exactly 0: 1<"), 1);
  EXPECT_EQ(count(html, ">new_error<"), 1);
  EXPECT_EQ(count(html, "<h3>"), 5) << "no curves of them";
}

TEST_F(Report, PicturesAreInlinedByEpochNotByName) {
  put_sample("epoch-10000.png", 1);
  put_sample("epoch-9999.png", 2);
  put_sample("epoch-x.png", 3);
  put_sample("other.png", 4);
  const std::string html = page();
  EXPECT_EQ(count(html, "<img"), 2);
  EXPECT_EQ(count(html, sample_uri("epoch-10000.png")), 1);
  EXPECT_LT(html.find(sample_uri("epoch-10000.png")), html.find(sample_uri("epoch-9999.png")));
}

TEST_F(Report, SaysWhatIsMissing) {
  const std::string html = page();
  EXPECT_EQ(count(html, "metrics.jsonl is missing"), 1);
  EXPECT_EQ(count(html, "config.yaml is missing"), 1);
  EXPECT_EQ(count(html, "samples/ has no epoch-NNNN.png"), 1);
  fs::remove_all(run_ / "samples");
  EXPECT_EQ(count(page(), "samples/ has no epoch-NNNN.png"), 1);
  put("metrics.jsonl", "");
  EXPECT_EQ(count(page(), "has no records yet"), 1);
  put("metrics.jsonl", "{\"kind\":\"step\",\"step\":1,\"loss\":2}\n");
  EXPECT_EQ(count(page(), "has no evaluation yet"), 1);
}

TEST_F(Report, TornMetricsAreNoted) {
  put("metrics.jsonl", std::string(metrics) + "{\"kind\":\"step\",\"step\":12");
  const std::string html = page();
  EXPECT_EQ(count(html, "1 line of metrics.jsonl could not be read"), 1);
  EXPECT_EQ(count(html, "16.75 dB"), 1);
}

TEST_F(Report, TornPicturesAreNoted) {
  put_sample("epoch-0001.png", 1);
  fs::resize_file(run_ / "samples" / "epoch-0001.png",
                  fs::file_size(run_ / "samples" / "epoch-0001.png") - 5);
  put("samples/epoch-0002.png", "");
  fs::create_directory(run_ / "samples" / "epoch-0003.png");
  const std::string html = page();
  EXPECT_EQ(count(html, "<img"), 0);
  EXPECT_EQ(count(html, "cannot be shown"), 3);
}

TEST_F(Report, NothingInTheFilesBecomesMarkup) {
  const std::string evil = "</pre><script>alert(1)</script>";
  put("config.yaml", "train: '" + evil + "' & more\n");
  put("metrics.jsonl", "{\"kind\":\"phase\",\"step\":0,\"phase\":\"" + evil + "\",\"reason\":\"" +
                           evil + "\"}\n{\"kind\":\"eval\",\"step\":1,\"" + evil + "\":1}\n");
  EXPECT_GE(count(page(), "&lt;script&gt;"), 4);
}

TEST_F(Report, NamesTheFolderHoweverItIsWritten) {
  write_report(run_ / "");
  EXPECT_EQ(count(read_text(run_ / "report.html"), "<h1>" + run_.filename().string() + "</h1>"), 1);
  write_report(run_ / "samples" / "..");
  EXPECT_EQ(count(read_text(run_ / "report.html"), "<h1>" + run_.filename().string() + "</h1>"), 1);
}

TEST_F(Report, RefusesWhatIsNoFolder) {
  EXPECT_THROW(write_report(run_ / "nowhere"), UserError);
  put("file", "");
  EXPECT_THROW(write_report(run_ / "file"), UserError);
}

}  // namespace
}  // namespace nsvq
