#include <gtest/gtest.h>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/ops/code_statistics/spectrum.h"
#include "tests/cli/model_file.h"
#include "tests/cli/run.h"
#include "tests/train/tiny.h"
#include "tests/weights_store.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

class Codebook : public testing::Test {
 protected:
  void SetUp() override { write_model_file(model_, tiny_config()); }

  Result kmeans(std::vector<std::string> more = {}, const std::string& name = "codes.safetensors") {
    std::vector<std::string> words = {
        "codebook", "kmeans", model_, "--data", data_, "--out", (folder_ / name).string()};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  Result features(std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"codebook", "features",
                                      "--data",   data_,
                                      "--out",    (folder_ / "features.safetensors").string()};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }

  TemporaryFolder own_;
  fs::path folder_ = own_.path();
  std::string model_ = (folder_ / "model.safetensors").string();
  std::string data_ = "builtin:dead-leaves?size=32&count=13";
};

TEST_F(Codebook, ClustersTheLatentsOfAModel) {
  const auto result = kmeans({"--codes", "20", "--iterations", "5"});
  ASSERT_EQ(result.code, 0) << result.error;
  expect_contains(result.out, {"codebook [20, 8] of 832 vectors", "13 images", "5 iterations"});
  const auto file = read_safetensors(folder_ / "codes.safetensors");
  ASSERT_EQ(file.tensors.size(), 1u);
  const auto codes = file.tensors.at("codebook");
  EXPECT_EQ(codes.sizes(), (std::vector<int64_t>{20, 8}));
  EXPECT_TRUE(at::isfinite(codes).all().item<bool>());
  EXPECT_EQ(std::get<0>(at::unique_dim(codes, 0)).size(0), 20);
  EXPECT_EQ(file.metadata.at("nsvq.data"), data_);

  ASSERT_EQ(kmeans({"--codes", "20", "--iterations", "5"}, "again.safetensors").code, 0);
  EXPECT_EQ(read_file(folder_ / "codes.safetensors"), read_file(folder_ / "again.safetensors"));
  ASSERT_EQ(kmeans({"--codes", "20", "--force", "--seed", "2"}, "again.safetensors").code, 0);
  EXPECT_NE(read_file(folder_ / "codes.safetensors"), read_file(folder_ / "again.safetensors"));
}

TEST_F(Codebook, SaysHowFarFromAFixedPointItIs) {
  const auto json = folder_ / "codes.json";
  const auto distance_after = [&](const std::string& iterations) {
    EXPECT_EQ(
        kmeans({"--codes", "20", "--iterations", iterations, "--force", "--json", json.string()})
            .code,
        0);
    const auto said = read_json(json);
    const double error = said.at("quantization_error");
    EXPECT_NEAR(error * error, said.at("mean_squared_error").get<double>(), 1e-9);
    return said.at("centroid_distance").get<double>();
  };
  EXPECT_GT(distance_after("0"), 1e-3);
  EXPECT_LT(distance_after("500"), 1e-6);
}

TEST_F(Codebook, SaysInHowManyDirectionsVectorsAndCodesVary) {
  const auto json = folder_ / "codes.json";
  const auto result = kmeans({"--codes", "20", "--json", json.string()});
  ASSERT_EQ(result.code, 0) << result.error;
  const auto said = read_json(json);
  const double vectors = said.at("vectors_participation"), codes = said.at("codes_participation");
  expect_contains(result.out,
                  {fmt::format(", participation {:.2f} (codes {:.2f})\n", vectors, codes)});
  const auto centres = read_safetensors(folder_ / "codes.safetensors").tensors.at("codebook");
  EXPECT_NEAR(codes, participation_ratio(covariance_spectrum(centres)), 1e-6);
  EXPECT_GE(vectors, 1);
  EXPECT_LE(vectors, 8);
  EXPECT_EQ(said.at("vectors_spectrum").size(), 8u);
  EXPECT_EQ(said.at("codes_spectrum").size(), 8u);

  const auto one = kmeans({"--codes", "1", "--force", "--json", json.string()});
  ASSERT_EQ(one.code, 0) << one.error;
  EXPECT_EQ(one.out.find("(codes"), std::string::npos) << one.out;
  EXPECT_TRUE(read_json(json).at("codes_participation").is_null());
  EXPECT_TRUE(read_json(json).at("codes_spectrum").empty());
}

TEST_F(Codebook, NamesOfFilesNeedNotBeText) {
  const auto odd = folder_ / "caf\xe9";
  fs::create_directories(odd);
  fs::copy_file(model_, odd / "model.safetensors");
  model_ = (odd / "model.safetensors").string();
  const auto result = kmeans({"--codes", "4"});
  ASSERT_EQ(result.code, 0) << result.error;
  const auto metadata = read_safetensors(folder_ / "codes.safetensors").metadata;
  expect_contains(metadata.at("nsvq.model"), {"caf\\xe9/model.safetensors"});
}

TEST_F(Codebook, OfAModelWithoutCodesNeedsTheirNumber) {
  write_model_file(model_, tiny_config_of("none"));
  EXPECT_EQ(kmeans({"--codes", "20"}).code, 0);
  EXPECT_EQ(kmeans().code, 2);
}

TEST_F(Codebook, HasAsManyCodesAsTheModelAndAsManyVectorsAsAsked) {
  const auto result = kmeans({"--vectors", "101", "--batch-size", "4"});
  ASSERT_EQ(result.code, 0) << result.error;
  expect_contains(result.out, {"codebook [32, 8] of 101 vectors"});
}

TEST_F(Codebook, ClustersFeaturesOfPatches) {
  WeightsStore store;
  store.add_lpips("alex");
  const auto result = features({"--net", "alex", "--size", "64", "--grid", "3", "--codes", "10"});
  ASSERT_EQ(result.code, 0) << result.error;
  expect_contains(result.out, {"features [10, 256] of 117 vectors", "alex of 64 pixels"});
  const auto file = read_safetensors(folder_ / "features.safetensors");
  EXPECT_EQ(file.tensors.at("features").sizes(), (std::vector<int64_t>{10, 256}));
  EXPECT_EQ(file.metadata.at("nsvq.net"), "alex");
}

TEST_F(Codebook, FeaturesAreCentredAndOfLengthOne) {
  WeightsStore store;
  store.add_lpips("alex");
  // Codes in the number of the vectors: each is one of them.
  const auto result = features({"--net", "alex", "--size", "64", "--grid", "3", "--codes", "117"});
  ASSERT_EQ(result.code, 0) << result.error;
  const auto all = read_safetensors(folder_ / "features.safetensors").tensors.at("features");
  EXPECT_LT(all.mean(0).norm().item<double>(), 1e-4);
  EXPECT_NEAR(all.square().sum(1).mean().item<double>(), 1, 1e-3);
}

TEST_F(Codebook, MistakesGetOneLine) {
  WeightsStore store;
  store.add_lpips("alex");
  const auto refused = [](const Result& result, const std::vector<std::string>& words) {
    expect_failure(result, 2, words);
  };
  refused(run({"codebook"}), {"a command is missing (there are: kmeans, features)"});
  refused(kmeans({"--codes", "833"}), {"--codes", "833", "832"});
  refused(kmeans({"--codes", "0"}), {"--codes"});
  refused(kmeans({}, "codes.bin"), {".safetensors"});
  refused(kmeans({"--data", "missing"}), {"missing"});  // beside data_: several sources
  data_ = "missing";
  refused(kmeans(), {"missing"});
  data_ = "builtin:dead-leaves?size=32&count=3";
  refused(run({"codebook", "kmeans", "none", "--data", data_, "--out", "x.safetensors"}), {"none"});
  refused(features({"--net", "alex"}), {"--codes"});
  refused(features({"--net", "vgg", "--codes", "4"}), {"vgg16", "nsvq weights"});
  refused(features({"--net", "resnet", "--codes", "4"}), {"--net"});
  refused(features({"--net", "alex", "--codes", "4", "--size", "16"}), {"--size", "31"});
  refused(features({"--net", "alex", "--codes", "4", "--size", "64", "--grid", "9"}),
          {"--grid", "9", "3"});
  for (const auto& entry : fs::directory_iterator(folder_)) {
    EXPECT_EQ(entry.path().filename(), "model.safetensors") << "nothing is left behind";
  }
}

}  // namespace
}  // namespace nsvq
