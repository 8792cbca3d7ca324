// Figures of sets of images: golden values by their formulas (golden/image_sets.py), references.
#include "nsvq/metrics/sets/image_sets.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/formats/npz.h"
#include "nsvq/metrics/sets/inception_features.h"
#include "nsvq/metrics/sets/inception_score.h"
#include "nsvq/metrics/sets/precision_recall.h"
#include "nsvq/nn/features/feature_net.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/losses/random_lpips.h"
#include "tests/two_ranks.h"
#include "tests/weights_store.h"

namespace nsvq {
namespace {

using nlohmann::json;

json golden_cases(const char* figure) {
  std::ifstream file(NSVQ_TESTS_DIR "/golden/image_sets.json");
  return json::parse(file).at(figure);
}

/// `vectors` of the Python script.
torch::Tensor vectors(const std::string& name, int64_t count, const json& golden) {
  const auto levels = golden.at("levels").get<double>();
  const auto x = draw(name, {count, golden.at("channels").get<int64_t>()});
  return levels > 0 ? ((x + 1) / 2 * levels).floor() : x;
}

TEST(PrecisionRecallGolden, MatchEveryDistanceByItself) {
  const auto cases = golden_cases("precision_recall");
  ASSERT_GE(cases.size(), 7u);
  for (const auto& golden : cases) {
    SCOPED_TRACE(golden.dump());
    const auto counts = golden.at("counts").get<std::vector<int64_t>>();
    const auto images = vectors("images", counts[0], golden);
    const auto made = vectors("made", counts[1], golden) + golden.at("shift").get<double>();
    for (const int64_t block : {1, 3, 31, 32, 4096}) {
      const auto share = [&](const torch::Tensor& judged, const torch::Tensor& centres) {
        const auto radii = squared_radii(centres, kManifoldNeighbours, block);
        return inside_any(judged, centres, radii, block).to(torch::kDouble).mean().item<double>();
      };
      EXPECT_NEAR(share(made, images), golden.at("precision").get<double>(), 1e-12) << block;
      EXPECT_NEAR(share(images, made), golden.at("recall").get<double>(), 1e-12) << block;
    }
  }
}

TEST(PrecisionRecall, EqualVectorsFarFromZeroAreInside) {
  // Four copies have radius 0, which a product would miss by the rounding of large norms.
  const auto once = draw("once", {1, 2048}).to(torch::kFloat) + 1000;
  const auto copies = once.expand({4, 2048}).contiguous();
  const auto near = once + 0.01;
  const auto radii = squared_radii(copies);
  EXPECT_TRUE(inside_any(once, copies, radii).item<bool>());
  EXPECT_FALSE(inside_any(near, copies, radii).item<bool>());
  EXPECT_TRUE(inside_any(copies, near, torch::full({1}, 0.5, torch::kDouble)).all().item<bool>());
}

TEST(PrecisionRecall, NeedsMoreVectorsThanNeighbours) {
  EXPECT_THROW(squared_radii(torch::zeros({3, 2})), c10::Error);
  EXPECT_EQ(squared_radii(torch::zeros({4, 2})).sizes(), torch::IntArrayRef({4}));
}

torch::Tensor golden_logits(const json& golden) {
  const auto shape = {golden.at("images").get<int64_t>(), golden.at("classes").get<int64_t>()};
  return 4 * draw("logits", shape);
}

TEST(InceptionScoreGolden, MatchesTheFormula) {
  const auto cases = golden_cases("inception_score");
  ASSERT_GE(cases.size(), 3u);
  for (const auto& golden : cases) {
    SCOPED_TRACE(golden.dump());
    const auto logs = golden_logits(golden).log_softmax(1);
    for (const int64_t batch : {1, 7, 4096}) {
      InceptionScores scores(logs.size(1));
      for (const auto& part : logs.split(batch)) scores.add(part);
      EXPECT_NEAR(*scores.mean(), golden.at("mean").get<double>(), 1e-10) << batch;
      EXPECT_NEAR(*scores.deviation(), golden.at("std").get<double>(), 1e-8) << batch;
    }
  }
}

/// Images of one class each, with certainty, in the order of a folder: exp of the entropy.
TEST(InceptionScores, SortedAndPeriodicClassesComeToAllSplits) {
  constexpr int64_t classes = 10, images = 2000;
  for (const bool sorted : {true, false}) {
    const auto number = torch::arange(images);
    const auto label = sorted ? number * classes / images : number % classes;
    const auto logits = torch::zeros({images, classes}, torch::kDouble);
    logits.scatter_(1, label.to(torch::kLong).unsqueeze(1), 1000);
    InceptionScores scores(classes);
    scores.add(logits.log_softmax(1));
    EXPECT_GT(*scores.mean(), 0.97 * classes) << sorted;
    EXPECT_LE(*scores.mean(), classes + 1e-9) << sorted;
  }
}

TEST(InceptionScores, OfFewImagesHaveNoValue) {
  InceptionScores scores(4);
  EXPECT_FALSE(scores.mean());
  scores.add(torch::zeros({9, 4}, torch::kDouble).log_softmax(1));
  EXPECT_FALSE(scores.mean());
  EXPECT_FALSE(scores.deviation());
  scores.add(torch::zeros({1, 4}, torch::kDouble).log_softmax(1));
  EXPECT_NEAR(*scores.mean(), 1, 1e-12);
  EXPECT_NEAR(*scores.deviation(), 0, 1e-12);
  scores.reset();
  EXPECT_FALSE(scores.mean());
}

/// Parts by other processes: each deals out its own images, and all take part in the end.
TEST(InceptionScores, OfPartsAreNearTheWhole) {
  const auto logs = (4 * draw("logits", {400, 12})).log_softmax(1);
  InceptionScores whole(12), first(12), second(12);
  whole.add(logs);
  first.add(logs.narrow(0, 0, 187));
  second.add(logs.narrow(0, 187, 213));
  first.sums()[0].add_(second.sums()[0]);
  EXPECT_NEAR(*first.mean(), *whole.mean(), 0.03 * *whole.mean());
  EXPECT_NE(*first.mean(), *whole.mean());
}

TEST(TensorflowResizeGolden, MatchesOnePixelAtATime) {
  const auto cases = golden_cases("tensorflow_resize");
  ASSERT_GE(cases.size(), 5u);
  for (const auto& golden : cases) {
    const auto height = golden.at("height").get<int64_t>();
    const auto width = golden.at("width").get<int64_t>();
    SCOPED_TRACE(std::to_string(height) + " x " + std::to_string(width));
    const auto drawn = (128 * (draw("pixels", {height, width}) + 1)).floor().to(torch::kFloat);
    const auto pixels = torch::stack({drawn, 255 - drawn, drawn}).unsqueeze(0);
    const auto input = Inception::tensorflow_input(pixels);
    ASSERT_EQ(input.sizes(), torch::IntArrayRef({1, 3, 299, 299}));
    EXPECT_TRUE(torch::equal(input[0][0], input[0][2]));
    EXPECT_TRUE(torch::allclose(input[0][1], -1 / 128.0 - input[0][0], 0, 1e-5));
    const auto found = input[0][0].flatten().contiguous();
    EXPECT_NEAR(found.to(torch::kDouble).mean().item<double>(), golden.at("mean").get<double>(),
                1e-6);
    const auto& places = golden.at("places");
    ASSERT_GE(places.size(), 64u);
    for (size_t i = 0; i < places.size(); ++i) {
      EXPECT_NEAR(found[places[i].get<int64_t>()].item<float>(),
                  golden.at("values")[i].get<double>(), 1e-5);
    }
  }
}

class ImageSets : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    torch::manual_seed(4);
    store_ = std::make_unique<WeightsStore>();
    store_->add("inception", Inception());
    store_->add("inception-fc", InceptionHead());
  }
  static void TearDownTestSuite() { store_.reset(); }

  static torch::Tensor images(const std::string& name, int64_t count) {
    return draw(name, {count, 3, 9, 7}).to(torch::kFloat);
  }

  TemporaryFolder folder_;
  static inline std::unique_ptr<WeightsStore> store_;
};

TEST_F(ImageSets, AreOfTheNetworksOutputs) {
  const auto x = images("x", 6), y = images("y", 11);
  MetricOptions options;
  InceptionFeatures network("fid", at::kCPU, options.conventions);
  const auto outputs_x = network.of(x), outputs_y = network.of(y);
  MetricSet metrics({"is", "precision", "recall", "sfid"}, options);
  metrics.add({x, {}, {}});
  metrics.add({{}, y.narrow(0, 0, 5), {}});
  metrics.add({{}, y.narrow(0, 5, 6), {}});
  const auto values = metrics.values();
  const auto share = [](const torch::Tensor& judged, const torch::Tensor& centres) {
    return inside_any(judged, centres, squared_radii(centres)).to(torch::kDouble).mean();
  };
  EXPECT_NEAR(values.at("precision"), share(outputs_y.pool, outputs_x.pool).item<double>(), 1e-12);
  EXPECT_NEAR(values.at("recall"), share(outputs_x.pool, outputs_y.pool).item<double>(), 1e-12);
  InceptionHead head;
  load_parameters(head, load_weights("inception-fc").tensors, "test");
  InceptionScores scores(InceptionHead::kClasses);
  scores.add(head.log_probabilities(outputs_y.pool));
  EXPECT_NEAR(values.at("is"), *scores.mean(), 1e-5);
  EXPECT_NEAR(values.at("is_std"), *scores.deviation(), 1e-5);
  FrechetStatistics a(Inception::kSpatialFeatures), b(Inception::kSpatialFeatures);
  a.add(outputs_x.spatial);
  b.add(outputs_y.spatial);
  EXPECT_NEAR(values.at("sfid"), frechet_distance(a, b), 1e-4 * frechet_distance(a, b));
}

TEST_F(ImageSets, ABatchPassesTheNetworkOnce) {
  InceptionFeatures network("fid", at::kCPU, {});
  const auto x = images("x", 1);
  network.remember();
  const auto first = network.of(x);
  EXPECT_TRUE(network.of(x).pool.is_same(first.pool));
  EXPECT_FALSE(network.of(x.clone()).pool.is_same(first.pool));
  network.forget();
  EXPECT_FALSE(network.of(x).pool.is_same(first.pool));
}

TEST_F(ImageSets, RanksPutTheirImagesTogether) {
  const auto x = images("x", 9), y = images("y", 12);
  MetricSet whole({"is", "precision", "recall"}, {});
  whole.add({x, y, {}});
  const auto expected = whole.values();
  std::map<std::string, double> found[2];
  std::mutex one;  // torch's random numbers and files are the process's
  on_two_ranks([&](int rank, Group& group) {
    std::optional<MetricSet> metrics;
    {
      const std::lock_guard lock(one);
      metrics.emplace(std::vector<std::string>{"is", "precision", "recall"}, MetricOptions{});
      // The second rank has no image of the first set.
      if (rank == 0) metrics->add({x, y.narrow(0, 0, 5), {}});
      if (rank == 1) metrics->add({{}, y.narrow(0, 5, 7), {}});
    }
    metrics->join(group);
    found[rank] = metrics->values();
  });
  for (const auto& name : {"precision", "recall"}) {
    EXPECT_EQ(found[0].at(name), expected.at(name)) << name;
    EXPECT_EQ(found[1].at(name), expected.at(name)) << name;
  }
  EXPECT_EQ(found[0].at("is"), found[1].at("is"));
  EXPECT_GE(found[0].at("is"), 1 - 1e-9);
}

TEST_F(ImageSets, OtherWeightsAndAMissingHeadAreRefused) {
  WeightsStore store;
  store.add("inception", Inception());
  expect_contains(error_of([] { MetricSet({"is"}, {}); }),
                  {"inception-fc", "nsvq weights import pt_inception-2015-12-05-6726825d.pth"});
  save_weights("inception-fc", {{{"fc.weight", torch::zeros({1})}}, "mine.pth", false});
  expect_contains(error_of([] { MetricSet({"is"}, {}); }),
                  {"is: the stored inception-fc (mine.pth) are not the official values"});
  EXPECT_NO_THROW(MetricSet({"precision"}, {}));
}

/// A reference file like those of ADM's evaluator, as far as `arrays` go.
Reference read(const std::filesystem::path& path, const TensorMap& arrays,
               const std::vector<std::string>& metrics, const std::string& as = "adm",
               ReferenceImages images = ReferenceImages::in_file) {
  write_npz(path, arrays);
  return read_reference(path, metrics, find_conventions(as), images);
}

TEST_F(ImageSets, AReferenceFileNamesWhatItLacks) {
  const auto path = folder_ / "reference.npz";
  const TensorMap pool = {{"mu", torch::zeros({3})}, {"sigma", torch::eye(3)}};
  auto both = pool;
  both["mu_s"] = torch::ones({2});
  both["sigma_s"] = 2 * torch::eye(2);
  const auto reference = read(path, both, {"fid", "sfid", "is"});
  EXPECT_EQ(reference.of("fid")->mean.numel(), 3);
  EXPECT_EQ(reference.of("sfid")->mean.sum().item<double>(), 2);
  EXPECT_EQ(reference.of("sfid")->resize, InceptionResize::tensorflow);
  EXPECT_EQ(reference.of("precision"), nullptr);
  EXPECT_EQ(reference.image_count(), 0);
  const auto refused = [&](const TensorMap& arrays, const std::string& metric,
                           ReferenceImages images, const std::vector<std::string>& parts) {
    const auto error = error_of([&] { read(path, arrays, {"is", metric}, "nsvq", images); });
    expect_contains(error, parts);
    expect_contains(error, {path.string(), metric});
  };
  refused(
      pool, "sfid", ReferenceImages::in_file,
      {"needs 'mu_s' and 'sigma_s' or images 'arr_0', which it lacks (there are: 'mu, sigma')"});
  refused(pool, "sfid", ReferenceImages::elsewhere, {"needs 'mu_s' and 'sigma_s', which it lacks"});
  refused(both, "recall", ReferenceImages::in_file, {"needs images 'arr_0', which it lacks"});
  EXPECT_NO_THROW(read(path, pool, {"recall", "fid"}, "nsvq", ReferenceImages::elsewhere));
  refused({{"mu", torch::zeros({3})}}, "fid", ReferenceImages::elsewhere, {"'mu' and 'sigma'"});
}

TEST_F(ImageSets, AReferenceFileThatServesNothingIsRefused) {
  const std::string path = folder_ / "reference.npz";
  write_npz(path, {{"mu", torch::zeros({3})}, {"sigma", torch::eye(3)}});
  const auto choose = [&](const std::string& metrics, ReferenceImages images) {
    return choose_metrics({.metrics = metrics, .statistics = path, .images = images},
                          Measured::images);
  };
  for (const auto& metrics : {"recall,psnr", "is", "psnr"}) {
    expect_contains(error_of([&] { choose(metrics, ReferenceImages::elsewhere); }),
                    {path, "statistics are for Fréchet distances"});
  }
  expect_contains(error_of([&] { choose("psnr", ReferenceImages::in_file); }), {path, "Fréchet"});
  EXPECT_NE(choose("is,fid", ReferenceImages::elsewhere).reference->of("fid"), nullptr);
  EXPECT_NE(choose("is", ReferenceImages::in_file).reference, nullptr);
}

TEST_F(ImageSets, AnotherResizeHasALine) {
  const auto path = folder_ / "reference.npz";
  const TensorMap pytorch = {{"mu", torch::zeros({3})}, {"sigma", torch::eye(3)}};
  auto adm = pytorch;
  adm["mu_s"] = torch::ones({2});
  adm["sigma_s"] = torch::eye(2);
  const auto logged = [&](const TensorMap& arrays, const std::string& as) {
    testing::internal::CaptureStderr();
    read(path, arrays, {"fid"}, as);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(logged(adm, "adm"), "");
  EXPECT_EQ(logged(pytorch, "adm"), "") << "the file does not say";
  expect_contains(logged(adm, "nsvq"),
                  {"fid: the statistics", "as in TensorFlow's graph", "--conventions adm"});
  auto ours = pytorch;
  ours["image_count"] = torch::full({1}, 8.0);
  EXPECT_EQ(logged(ours, "nsvq"), "");
  expect_contains(logged(ours, "adm"), {"resized as in pytorch-fid", "--conventions nsvq"});
  ours["tensorflow_resize"] = torch::ones({1});
  EXPECT_EQ(logged(ours, "adm"), "");
}

TEST_F(ImageSets, AreDescribedByTheirImages) {
  const auto gaussian = [](int64_t count) {
    Gaussian known{torch::zeros({1}), torch::eye(1)};
    known.count = count;
    return std::make_shared<const Gaussian>(known);
  };
  MetricChoice choice{{"psnr", "fid", "recall", "is"}, {}, nullptr};
  std::map<std::string, double> values = {{"images", 50}, {"reference_images", 40}};
  auto lines = describe_sets(choice, values, "photos", "5 classes of 10 images each");
  EXPECT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines.at("fid"), "50 images (5 classes of 10 images each) against 40 images of photos");
  EXPECT_EQ(lines.at("recall"), lines.at("fid"));
  EXPECT_EQ(lines.at("is"), "50 images (5 classes of 10 images each)");
  Reference file{"adm.npz", {{"fid", gaussian(0)}}, nullptr};
  choice.reference = std::make_shared<const Reference>(file);
  lines = describe_sets(choice, values, "photos");
  EXPECT_EQ(lines.at("fid"),
            "50 images against 'mu' and 'sigma' of adm.npz, whose number of images is unknown");
  file.statistics["fid"] = gaussian(7);
  choice.reference = std::make_shared<const Reference>(file);
  lines = describe_sets(choice, values, "photos");
  EXPECT_EQ(lines.at("fid"), "50 images against 'mu' and 'sigma' of adm.npz, of 7 images");
}

/// Images with these classes.
class Classes : public Source {
 public:
  explicit Classes(std::vector<int64_t> labels) : labels_(std::move(labels)) {}
  int64_t size() const override { return std::ssize(labels_); }
  std::string key(int64_t index) const override { return std::to_string(index); }
  int64_t label(int64_t index) const override { return labels_.at(index); }
  Image load(int64_t) const override { return {}; }

 private:
  std::vector<int64_t> labels_;
};

TEST_F(ImageSets, ClassesAreBalancedOrNot) {
  EXPECT_EQ(describe_classes(Classes({0, 1, 0, 1, 2}), 4), "2 classes of 2 images each");
  EXPECT_EQ(describe_classes(Classes({0, 1, 0, 1, 2}), 9), "3 classes of 1 to 2 images");
  EXPECT_EQ(describe_classes(Classes({5}), 1), "1 class of 1 image each");
  EXPECT_EQ(describe_classes(Classes({-1, -1}), 2), "classes unknown");
  EXPECT_EQ(describe_classes(Classes({}), 2), "classes unknown");
}

TEST(ImageSetSizes, AreNamedWhereTheyAreTooSmall) {
  EXPECT_NO_THROW(require_images({"fid", "psnr"}, 2, "photos"));
  EXPECT_EQ(error_of([] { require_images({"fid"}, 1, "photos"); }),
            "photos: fid needs at least two images");
  EXPECT_EQ(error_of([] {
              require_images({"psnr", "recall"}, 3, "photos");
            }),
            "photos: recall needs at least 4 images");
  EXPECT_EQ(error_of([] { require_images({"is"}, 9, "photos"); }),
            "photos: is needs at least 10 images");
}

}  // namespace
}  // namespace nsvq
