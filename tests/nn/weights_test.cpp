#include "nsvq/nn/weights.h"

#include <gtest/gtest.h>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/core/tensor_map.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/files/sha256.h"
#include "nsvq/io/formats/safetensors.h"
#include "tests/environment.h"

namespace nsvq {
namespace {

/// The error that loading gives, which must be one line; empty if there is none.
std::string error_of(const std::string& name) {
  try {
    load_weights(name);
    return "";
  } catch (const UserError& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  }
}

class WeightsStore : public testing::Test {
 protected:
  void expect_error(const std::string& name, const std::vector<std::string>& parts) {
    const auto error = error_of(name);
    for (const auto& part : parts) EXPECT_NE(error.find(part), std::string::npos) << error;
  }

  TemporaryFolder folder_;
  Environment store_{"NSVQ_WEIGHTS", folder_.path()};
  TensorMap tensors_ = {{"b", torch::arange(5, torch::kFloat)}, {"a", torch::ones({2, 3})}};
};

TEST_F(WeightsStore, WhereItLies) {
  EXPECT_EQ(weights_path("vgg16"), folder_ / "vgg16.safetensors");
  const Environment none("NSVQ_WEIGHTS", std::nullopt), home("HOME", "/h");
  {
    const Environment cache("XDG_CACHE_HOME", "/c");
    EXPECT_EQ(weights_folder(), "/c/nsvq/weights");
  }
  const Environment no_cache("XDG_CACHE_HOME", "");
  EXPECT_EQ(weights_folder(), "/h/.cache/nsvq/weights");
  const Environment no_home("HOME", std::nullopt);
  EXPECT_THROW(weights_folder(), UserError);
}

TEST_F(WeightsStore, RoundTrip) {
  save_weights("vgg16", {tensors_, "a file", true});
  save_weights("alexnet", {tensors_, "another", false});
  const auto weights = load_weights("vgg16");
  EXPECT_EQ(weights.source, "a file");
  EXPECT_TRUE(weights.official);
  EXPECT_FALSE(load_weights("alexnet").official);
  ASSERT_EQ(weights.tensors.size(), 2u);
  for (const auto& [name, tensor] : tensors_) {
    EXPECT_TRUE(torch::equal(weights.tensors.at(name), tensor));
  }
}

TEST_F(WeightsStore, TheirOriginIsToldWithoutReadingThem) {
  EXPECT_THROW(weights_origin("vgg16"), UserError);
  save_weights("vgg16", {tensors_, "a file", true});
  auto bytes = read_file(weights_path("vgg16"));
  bytes.back() ^= std::byte{1};
  write_file(weights_path("vgg16"), bytes);
  const auto origin = weights_origin("vgg16");
  EXPECT_EQ(origin.source, "a file");
  EXPECT_TRUE(origin.official);
  EXPECT_EQ(origin.sha256, tensors_sha256(tensors_));
  EXPECT_EQ(describe_values(origin.official, origin.source), "official values, from a file");
  save_weights("vgg16", {tensors_, "another", false});
  EXPECT_FALSE(weights_origin("vgg16").official);
}

TEST_F(WeightsStore, HalfPrecisionComesBackAsFp32) {
  for (const auto type : {torch::kHalf, torch::kBFloat16, torch::kDouble}) {
    save_weights("vgg16", {{{"a", tensors_["b"].to(type)}}, "test", false});
    EXPECT_EQ(read_safetensors(weights_path("vgg16")).tensors.at("a").scalar_type(), type);
    const auto loaded = load_weights("vgg16").tensors.at("a");
    EXPECT_EQ(loaded.scalar_type(), torch::kFloat);
    EXPECT_TRUE(torch::equal(loaded, tensors_["b"]));
  }
}

TEST_F(WeightsStore, TheDigestIsThatOfTheBytesAfterTheHeader) {
  save_weights("vgg16", {tensors_, "test", false});
  const auto bytes = read_file(weights_path("vgg16"));
  Sha256 hash;
  hash.add(std::span(bytes).last(11 * sizeof(float)));
  EXPECT_EQ(tensors_sha256(tensors_), hash.hex());
  // The layout in memory does not count.
  auto transposed = tensors_;
  transposed["a"] = torch::ones({3, 2}).t();
  EXPECT_EQ(tensors_sha256(transposed), hash.hex());
}

TEST_F(WeightsStore, MissingWeightsNameTheCommand) {
  expect_error("vgg16", {folder_.path(), "`nsvq weights get lpips-vgg`"});
  expect_error("lpips-vgg", {"`nsvq weights get lpips-vgg`"});
  expect_error("alexnet", {"`nsvq weights get lpips-alex`"});
  expect_error("lpips-squeeze", {"`nsvq weights get lpips-squeeze`"});
  expect_error("squeezenet1_1",
               {"`nsvq weights import squeezenet1_1-b8a52dc0.pth --as squeezenet1_1`"});
  expect_error("inception", {"`nsvq weights get inception`"});
  expect_error("vgg61", {"vgg61", "did you mean 'vgg16'", "lpips-alex"});
}

TEST_F(WeightsStore, DamageIsOneLine) {
  save_weights("vgg16", {tensors_, "test", true});
  const auto path = weights_path("vgg16");
  const auto good = read_file(path);
  auto flipped = good;
  flipped.back() ^= std::byte{1};
  write_file(path, flipped);
  expect_error("vgg16", {path, "damaged", "`nsvq weights get lpips-vgg`"});
  write_file(path, std::span(good).first(good.size() - 1));
  expect_error("vgg16", {path, "`nsvq weights get lpips-vgg` again"});
  write_file(path, {});
  expect_error("vgg16", {path, "`nsvq weights get lpips-vgg` again"});
  write_safetensors(path, {tensors_, {}});
  expect_error("vgg16", {path, "no sha256", "nsvq weights import"});
}

}  // namespace
}  // namespace nsvq
