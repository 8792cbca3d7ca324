// `nsvq images compare` and `statistics`.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/data/sources/source.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/npz.h"
#include "nsvq/io/images/image.h"
#include "nsvq/metrics/metric_set.h"
#include "nsvq/nn/features/inception.h"
#include "tests/cli/run.h"
#include "tests/npz_images.h"
#include "tests/weights_store.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// A picture whose pixels follow from the seed.
Image picture(int width, int height, int seed) {
  Image image{width, height, {}};
  for (int i = 0; i < width * height * 3; ++i) {
    image.pixels.push_back(static_cast<uint8_t>((i * (7 + seed) / 5 + i * i % 31 * seed) % 256));
  }
  return image;
}

Image darker(Image image, int by) {
  for (auto& value : image.pixels) value = static_cast<uint8_t>(std::max(0, value - by));
  return image;
}

torch::Tensor to_tensor(const Image& image) {
  const auto bytes = at::tensor(at::ArrayRef<uint8_t>(image.pixels), at::kByte);
  return bytes.view({1, image.height, image.width, 3}).permute({0, 3, 1, 2}) / 127.5 - 1;
}

class MetricsCommand : public testing::Test {
 protected:
  /// The figures of a call that has to succeed.
  json figures(std::vector<std::string> words) {
    words.insert(words.begin(), {"images", "compare"});
    words.insert(words.end(), {"--force", "--json", folder_ / "figures.json"});
    const auto result = run(words);
    EXPECT_EQ(result.code, 0) << result.error;
    return result.code == 0 ? json::parse(read_text(folder_ / "figures.json")) : json();
  }

  std::string write(const std::string& name, const Image& image) {
    write_image(folder_ / name, image);
    return folder_ / name;
  }

  TemporaryFolder folder_;
};

TEST_F(MetricsCommand, PairsByNameAtTheImagesOwnSizes) {
  MetricSet expected({"psnr", "psnr_pooled", "ssim"}, {});
  const std::vector<std::pair<int, int>> sizes = {{9, 33}, {31, 7}, {31, 7}, {64, 65}};
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int seed = static_cast<int>(i) + 1;
    const auto image = picture(sizes[i].first, sizes[i].second, seed);
    const auto other = darker(image, 5 * seed);
    write("a/sub/" + std::to_string(seed) + ".PNG", image);
    write("b/sub/" + std::to_string(seed) + ".png", other);
    expected.add({to_tensor(image), to_tensor(other), {}});
  }
  const auto found = figures({folder_ / "a", folder_ / "b"});
  for (const auto& [name, value] : expected.values()) {
    EXPECT_NEAR(found.at(name).get<double>(), value, 1e-9) << name;
  }
  EXPECT_EQ(found.at("images"), 4);
  EXPECT_TRUE(found.at("images").is_number_integer());
  EXPECT_FALSE(found.contains("utilisation"));
}

TEST_F(MetricsCommand, ALimitTakesTheFirstImagesAndTheirPartners) {
  for (int i = 0; i < 4; ++i) {
    const auto name = std::to_string(i) + ".png";
    write("a/" + name, picture(16, 16, i + 1));
    const auto other = darker(picture(16, 16, i + 1), 5 * i + 5);
    write("b/" + name, other);
    if (i < 2) write("c/" + name, other);
  }
  const auto a = folder_ / "a", b = folder_ / "b", c = folder_ / "c";
  const auto all = figures({a, b}), two = figures({a, b, "--limit", "2"});
  EXPECT_EQ(two.at("images"), 2);
  EXPECT_NE(two.at("psnr"), all.at("psnr"));
  EXPECT_EQ(figures({a, c, "--limit", "2"}).at("psnr"), two.at("psnr"));
  EXPECT_EQ(figures({a, b, "--limit", "4"}).at("psnr"), all.at("psnr"));
  EXPECT_EQ(figures({a, b, "--limit", "9"}).at("images"), 4);
  expect_failure(run({"images", "compare", a, c, "--limit", "3"}), 2, {"1 of 3 images", "2"});
  expect_failure(run({"images", "compare", c, a, "--limit", "9"}), 2, {"2 of 4 images"});
  WeightsStore store;
  store.add("inception", Inception());
  const auto sets = figures({a, c, "--metrics", "fid", "--limit", "3"});
  EXPECT_EQ(sets.at("images"), 2);
  EXPECT_EQ(sets.at("reference_images"), 3);
}

TEST_F(MetricsCommand, TwoImagesAreAPairWhateverTheirNames) {
  const auto image = picture(21, 33, 1);
  const auto a = write("x.png", image), b = write("y.png", darker(image, 255));
  EXPECT_EQ(figures({a, a}).at("psnr"), 100);
  EXPECT_EQ(figures({a, a}).at("ssim"), 1);
  EXPECT_LT(figures({a, b}).at("psnr"), 15);
  EXPECT_GT(figures({a, b, "--as", "llamagen"}).at("ssim"), figures({a, b}).at("ssim"));
}

TEST_F(MetricsCommand, ShardsAndFoldersPairAlike) {
  const auto image = picture(21, 33, 1);
  write("a/1.png", image);
  write("a/2.png", picture(8, 9, 2));
  const auto tar = (folder_ / "a.tar").string();
  ASSERT_EQ(
      std::system(("tar -cf " + tar + " -C " + (folder_ / "a").string() + " 2.png 1.png").c_str()),
      0);
  EXPECT_EQ(figures({folder_ / "a", tar}).at("psnr"), 100);
}

TEST_F(MetricsCommand, SetsAreComparedWithoutNames) {
  WeightsStore store;
  store.add_lpips("squeeze");
  for (int i = 0; i < 5; ++i) {
    write("a/" + std::to_string(i) + ".png", picture(35 + i % 2, 41, i));
    if (i < 4) write("b/other" + std::to_string(i) + ".png", picture(41, 35, i));
  }
  const auto other = figures({folder_ / "a", folder_ / "b", "--metrics", "fd-squeezenet1_1"});
  expect_contains(
      run({"images", "compare", folder_ / "a", folder_ / "b", "--metrics", "fd-squeezenet1_1"})
          .error,
      {"fd-squeezenet1_1: ", "images are too few for 512 features"});
  const auto same = figures({folder_ / "a", folder_ / "a", "--metrics", "fd-squeezenet1_1"});
  EXPECT_GT(other.at("fd-squeezenet1_1"), 1e-4);
  EXPECT_NEAR(same.at("fd-squeezenet1_1").get<double>(), 0, 1e-6);
  const auto both =
      figures({folder_ / "a", folder_ / "a", "--metrics", "fd-squeezenet1_1,lpips-squeeze"});
  EXPECT_EQ(both.at("lpips-squeeze"), 0);
  EXPECT_EQ(other.at("images"), 4);
  EXPECT_EQ(other.at("reference_images"), 5);
  EXPECT_FALSE(both.contains("reference_images"));
}

TEST_F(MetricsCommand, WeightsAreNamed) {
  WeightsStore store;
  store.add_lpips("squeeze");
  const auto a = write("a/0.png", picture(35, 41, 0)), b = write("a/1.png", picture(35, 41, 1));
  const std::string metrics = "lpips-squeeze,fd-squeezenet1_1";
  const auto result =
      run({"images", "compare", folder_ / "a", folder_ / "a", "--metrics", metrics});
  expect_contains(result.out, {"  weights squeezenet1_1: official values, from a test\n",
                               "  weights lpips-squeeze: official values, from a test\n"});
  const auto weights = figures({a, b, "--metrics", "lpips-squeeze"}).at("weights");
  EXPECT_EQ(weights.size(), 2u);
  EXPECT_EQ(weights.at("lpips-squeeze").at("sha256").get<std::string>().size(), 64u);
  EXPECT_FALSE(figures({a, b, "--metrics", "psnr"}).contains("weights"));
}

TEST_F(MetricsCommand, StatisticsTakeThePlaceOfTheReference) {
  WeightsStore store;
  store.add_lpips("squeeze");
  for (int i = 0; i < 5; ++i) {
    write("a/" + std::to_string(i) + ".png", picture(35 + i % 2, 41, i));
    if (i < 4) write("b/other" + std::to_string(i) + ".png", picture(41, 35, i));
  }
  const std::string file = folder_ / "a.npz", metric = "fd-squeezenet1_1";
  const auto saved =
      run({"images", "statistics", "--data", folder_ / "a", "--metric", metric, "--out", file});
  ASSERT_EQ(saved.code, 0) << saved.error;
  expect_contains(saved.out, {"5 images", "weights squeezenet1_1: official values"});
  expect_contains(saved.error, {"fd-squeezenet1_1: 5 images are too few for 512 features"});
  const auto from_images = figures({folder_ / "a", folder_ / "b", "--metrics", metric});
  const auto from_file = figures({file, folder_ / "b", "--metrics", metric});
  EXPECT_EQ(from_file.at(metric), from_images.at(metric));
  EXPECT_EQ(from_file.at("images"), 4);
  EXPECT_EQ(from_file.at("reference_images"), 5);

  const auto cropped = run({"images", "statistics", "--data", folder_ / "a", "--metric", metric,
                            "--size", "33", "--out", folder_ / "a33.npz"});
  ASSERT_EQ(cropped.code, 0) << cropped.error;
  const auto other_size =
      run({"images", "compare", folder_ / "a33.npz", folder_ / "b", "--metrics", metric});
  expect_contains(other_size.error, {"images of 33x33, but these are of 41x35"});
  EXPECT_NE(figures({folder_ / "a33.npz", folder_ / "b", "--metrics", metric}).at(metric),
            from_file.at(metric));
}

TEST_F(MetricsCommand, StatisticsThatDoNotFitGetOneLine) {
  WeightsStore store;
  store.add_lpips("squeeze");
  for (int i = 0; i < 2; ++i) write("a/" + std::to_string(i) + ".png", picture(35, 41, i));
  const std::string a = folder_ / "a", file = folder_ / "other.npz";
  write_npz(file, {{"mu", torch::zeros({3})}, {"sigma", torch::eye(3)}});
  expect_failure(run({"images", "compare", file, a, "--metrics", "fd-squeezenet1_1"}), 2,
                 {"3 features", "fd-squeezenet1_1 has 512"});
  expect_failure(run({"images", "compare", file, a}), 2, {file, "Fréchet"});
  expect_failure(run({"images", "compare", file, a, "--metrics", "fd-squeezenet1_1,psnr"}), 2,
                 {file, "alone"});
  expect_failure(
      run({"images", "compare", folder_ / "none.npz", a, "--metrics", "fd-squeezenet1_1"}), 2,
      {"none.npz"});
  expect_failure(run({"images", "statistics", "--data", a, "--out", folder_ / "x.txt"}), 2,
                 {".npz"});
  write("one/0.png", picture(35, 41, 0));
  expect_failure(run({"images", "statistics", "--data", folder_ / "one", "--metric",
                      "fd-squeezenet1_1", "--out", folder_ / "x.npz"}),
                 2, {"two images"});
}

/// The pixels of pictures as an .npz of samples has them.
std::string pixels_of(const std::vector<Image>& pictures) {
  std::string text;
  for (const auto& image : pictures) text.append(image.pixels.begin(), image.pixels.end());
  return text;
}

class SetsCommand : public MetricsCommand {
 protected:
  SetsCommand() {
    store_.add("inception", Inception());
    std::vector<Image> images, made;
    for (int i = 0; i < 5; ++i) images.push_back(picture(15, 13, i));
    for (int i = 0; i < 4; ++i) made.push_back(picture(15, 13, i + 3));
    for (int i = 0; i < 5; ++i) write("images/" + std::to_string(i) + ".png", images[i]);
    for (int i = 0; i < 4; ++i) write(fmt::format("made/{}/{}.png", i % 2, i), made[i]);
    write_text(images_, npz_images(5, 13, 15, pixels_of(images)));
    write_text(made_, npz_images(4, 13, 15, pixels_of(made), {0, 0, 0, 7}));
  }

  /// A file as ADM's evaluator has them: statistics, and images for precision and recall.
  std::string adm_file() {
    const auto saved = run({"images", "statistics", "--data", folder_ / "images", "--metric",
                            "fid,sfid", "--conventions", "adm", "--force", "--out", statistics_});
    EXPECT_EQ(saved.code, 0) << saved.error;
    expect_contains(saved.out, {"fid, sfid of the 5 images"});
    return statistics_;
  }

  WeightsStore store_;
  std::string images_ = folder_ / "images.npz", made_ = folder_ / "made.npz",
              statistics_ = folder_ / "statistics.npz";
};

TEST_F(SetsCommand, FilesOfImagesAreSetsLikeFolders) {
  const std::string metrics = "fid,sfid,precision,recall";
  const auto folders = figures({folder_ / "images", folder_ / "made", "--metrics", metrics});
  const auto files = figures({images_, made_, "--metrics", metrics});
  for (const auto& name : {"fid", "sfid", "precision", "recall"}) {
    const double expected = folders.at(name);
    EXPECT_NEAR(files.at(name).get<double>(), expected, 1e-6 * std::abs(expected)) << name;
    EXPECT_EQ(files.at("conventions").at(name), folders.at("conventions").at(name));
  }
  EXPECT_GT(files.at("fid"), 0);
  EXPECT_NE(files.at("sfid"), files.at("fid"));
  EXPECT_EQ(files.at("images"), 4);
  EXPECT_EQ(files.at("reference_images"), 5);
  EXPECT_EQ(files.at("sets").at("fid"),
            "4 images (2 classes of 1 to 3 images) against 5 images of " + images_);
  EXPECT_EQ(folders.at("sets").at("recall"),
            fmt::format("4 images (2 classes of 2 images each) against 5 images of {}",
                        (folder_ / "images").string()));
  EXPECT_EQ(figures({images_, made_, "--metrics", "recall", "--limit", "4"}).at("reference_images"),
            5)
      << "a reference file is whole";
}

TEST_F(SetsCommand, StatisticsOfTwoMetricsShareAFile) {
  const auto file = adm_file();
  const auto direct = figures(
      {folder_ / "images", folder_ / "made", "--metrics", "fid,sfid", "--conventions", "adm"});
  const auto result = run({"images", "compare", file, made_, "--metrics", "fid,sfid",
                           "--conventions", "adm", "--force", "--json", folder_ / "f.json"});
  ASSERT_EQ(result.code, 0) << result.error;
  const auto found = json::parse(read_text(folder_ / "f.json"));
  for (const auto& name : {"fid", "sfid"}) {
    const double expected = direct.at(name);
    EXPECT_NEAR(found.at(name).get<double>(), expected, 1e-6 * expected) << name;
  }
  expect_contains(result.out,
                  {"resized (bilinear, 299x299) as in TensorFlow's graph; 8-bit rounded",
                   "  fid: 4 images (2 classes of 1 to 3 images) against 'mu' and 'sigma' of " +
                       file + ", of 5 images\n",
                   "  sfid: ", "'mu_s' and 'sigma_s'"});
  const auto other = run({"images", "compare", file, made_, "--metrics", "fid"});
  EXPECT_EQ(other.code, 0) << other.error;
  expect_contains(other.error, {"as in TensorFlow's graph", "--conventions adm resizes alike"});
  expect_contains(other.out, {"as in pytorch-fid; 8-bit rounded"});
}

TEST_F(SetsCommand, WhatAReferenceLacksIsNamed) {
  const auto file = adm_file();
  const auto compare = [&](const std::string& metrics) {
    return run({"images", "compare", file, made_, "--metrics", metrics});
  };
  expect_failure(compare("fid,recall"), 2,
                 {file + ": recall needs images 'arr_0', which it lacks (there are: "});
  expect_failure(compare("is"), 2, {"inception-fc", "pt_inception-2015-12-05-6726825d.pth"});
  const auto paired = compare("fid,psnr");  // a line about the resizing, then the refusal
  EXPECT_EQ(paired.code, 2);
  expect_contains(paired.error, {"nsvq: " + file, "alone"});
  expect_failure(run({"images", "statistics", "--data", folder_ / "images", "--metric",
                      "fid,fd-vgg16", "--out", folder_ / "x.npz"}),
                 2, {"--metric", "'mu'", "fid", "fd-vgg16"});
  expect_failure(run({"images", "statistics", "--data", folder_ / "images", "--metric", "psnr",
                      "--out", folder_ / "x.npz"}),
                 2, {"--metric", "'psnr'", "sfid"});
}

TEST_F(SetsCommand, TheInceptionScoreHasADeviationAndNoReference) {
  store_.add("inception-fc", InceptionHead());
  std::vector<Image> many;
  for (int i = 0; i < 12; ++i) many.push_back(picture(9, 9, i));
  const std::string file = folder_ / "many.npz";
  write_text(file, npz_images(12, 9, 9, pixels_of(many)));
  expect_failure(run({"images", "compare", images_, made_, "--metrics", "is"}), 2,
                 {"is needs at least 10 images"});
  const auto result = run({"images", "compare", images_, file, "--metrics", "is", "--force",
                           "--json", folder_ / "f.json"});
  ASSERT_EQ(result.code, 0) << result.error;
  expect_contains(result.out,
                  {"mean over 10 splits", "is_std", "  is: 12 images (classes unknown)\n",
                   "weights inception-fc: official values"});
  const auto found = json::parse(read_text(folder_ / "f.json"));
  EXPECT_GE(found.at("is").get<double>(), 0.999999);
  EXPECT_GE(found.at("is_std"), 0);
}

TEST_F(MetricsCommand, MistakesGetOneLine) {
  for (int i = 0; i < 4; ++i) write("a/" + std::to_string(i) + ".png", picture(9, 9, i));
  write("b/0.png", picture(9, 9, 0));
  write("b/3.png", picture(9, 9, 3));
  const auto refuse = [&](std::vector<std::string> words, const std::vector<std::string>& parts) {
    words.insert(words.begin(), {"images", "compare"});
    expect_failure(run(words), 2, parts);
  };
  const std::string a = folder_ / "a", b = folder_ / "b";
  refuse({a, b}, {"2 of 4 images of " + a, "no partner in " + b, "first is 1"});
  refuse({b, a}, {"2 of 4 images of " + a, "no partner in " + b, "first is 1"});
  refuse({a, a, "--metrics", "psnr,entropy"}, {"entropy", "tokens"});
  refuse({a, folder_ / "none"}, {"none"});
  refuse({a}, {"IMAGES"});
  write("c/0.png", picture(9, 10, 0));
  write("c/3.png", picture(9, 9, 3));
  refuse({b, folder_ / "c"}, {"0.png", "9 x 9", "9 x 10"});
  write("b/3.jpg", picture(9, 9, 3));
  refuse({a, b}, {b, "two images are named 3"});
  write("d/0.png", picture(6, 9, 0));
  refuse({folder_ / "d", folder_ / "d"}, {"ssim", "7x7"});
}

TEST_F(MetricsCommand, ADamagedImageStopsIt) {
  write("a/0.png", picture(9, 9, 0));
  write("a/1.png", picture(9, 9, 1));
  fs::copy(folder_ / "a", folder_ / "b");
  write_text(folder_ / "b/1.png", "no picture");
  expect_failure(run({"images", "compare", folder_ / "a", folder_ / "b"}), 2,
                 {(folder_ / "b/1.png")});
}

}  // namespace
}  // namespace nsvq
