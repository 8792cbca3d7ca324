// Parity with the lpips package: golden/lpips.py made golden/lpips.json. With the official weights
// at hand, tests/python/compare_lpips.py runs OfficialLpips on pictures.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "nsvq/io/formats/safetensors.h"
#include "nsvq/losses/lpips.h"
#include "tests/losses/random_lpips.h"

namespace nsvq {
namespace {

using nlohmann::json;

struct Mode {
  const char* name;
  torch::ScalarType dtype;
  torch::MemoryFormat format;
  double tolerance;
};

const Mode kModes[] = {
    {"fp64", torch::kDouble, torch::MemoryFormat::Contiguous, 1e-8},
    {"fp32", torch::kFloat, torch::MemoryFormat::Contiguous, 1e-4},
    {"fp32_channels_last", torch::kFloat, torch::MemoryFormat::ChannelsLast, 1e-4},
};

/// The difference of each sample, relative to the tensor's root mean square; sorted.
std::vector<double> differences(const torch::Tensor& actual, const json& golden) {
  const auto flat = actual.to(torch::kDouble).contiguous().flatten();
  const auto samples = golden.at("samples").get<std::vector<double>>();
  const auto count = static_cast<int64_t>(samples.size());
  const double size =
      golden.at("norm").get<double>() / std::sqrt(static_cast<double>(flat.numel()));
  std::vector<double> result;
  for (int64_t i = 0; i < count; ++i) {
    result.push_back(std::abs(flat[i * flat.numel() / count].item<double>() - samples[i]) / size);
  }
  std::sort(result.begin(), result.end());
  return result;
}

/// In fp64 every sample counts, in fp32 the median: where rounding puts a ReLU's input on the other
/// side of 0, the gradient around it is another one (in the package too).
void expect_matches(const torch::Tensor& actual, const json& golden, const Mode& mode) {
  const bool exact = mode.dtype == torch::kDouble;
  const auto norm = golden.at("norm").get<double>();
  EXPECT_NEAR(actual.norm().item<double>(), norm, (exact ? mode.tolerance : 1e-3) * norm);
  const auto sorted = differences(actual, golden);
  ASSERT_EQ(sorted.size(), 64u);
  EXPECT_LT(exact ? sorted.back() : sorted[sorted.size() / 2], mode.tolerance);
}

void check(Lpips& lpips, const json& golden, const Mode& mode) {
  const auto shape = golden.at("shape").get<std::vector<int64_t>>();
  const auto rounded = [](const torch::Tensor& x) {
    return x.to(torch::kFloat).to(torch::kDouble);
  };
  const auto pictures = rounded(draw("images", shape));
  const auto others = rounded(pictures * 0.75 + 0.25 * rounded(draw("references", shape)));
  auto images = pictures.to(mode.dtype).contiguous(mode.format).requires_grad_();
  const auto distances = lpips.forward(images, others.to(mode.dtype).contiguous(mode.format));
  const auto expected = golden.at("distances").get<std::vector<double>>();
  ASSERT_EQ(distances.sizes(), (std::vector<int64_t>{shape[0]}));
  for (int64_t i = 0; i < shape[0]; ++i) {
    EXPECT_NEAR(distances[i].item<double>(), expected[i], mode.tolerance * expected[i]);
  }
  const auto weights = rounded(draw("loss", {shape[0]}));
  (distances * weights.to(mode.dtype)).sum().backward();
  expect_matches(images.grad(), golden.at("gradient"), mode);
}

TEST(LpipsGolden, MatchesThePackage) {
  std::ifstream file(NSVQ_TESTS_DIR "/golden/lpips.json");
  const auto nets = json::parse(file);
  ASSERT_EQ(nets.size(), lpips_net_names().size());
  for (const auto& name : lpips_net_names()) {
    const auto& kind = feature_net_kind(name);
    Lpips lpips(kind.name);
    lpips.load(random_weights(*kind.make()), random_weights(LpipsHeads(kind.channels)));
    for (const auto& mode : kModes) {
      lpips.to(mode.dtype);
      for (const auto& golden : nets.at(kind.name)) {
        SCOPED_TRACE(kind.name + " " + mode.name + " " + golden.at("shape").dump());
        check(lpips, golden, mode);
      }
    }
  }
}

/// $NSVQ_LPIPS_PICTURES is a file of `images` and `references` [B, 3, H, W] and, under the names of
/// networks, the distances [B] that the package gives.
TEST(OfficialLpips, MatchesThePackageOnPictures) {
  const char* path = std::getenv("NSVQ_LPIPS_PICTURES");
  if (!path) GTEST_SKIP() << "run tests/python/compare_lpips.py for this";
  auto tensors = read_safetensors(path).tensors;
  const auto images = tensors.at("images"), references = tensors.at("references");
  int compared = 0;
  for (const auto& name : lpips_net_names()) {
    const auto& kind = feature_net_kind(name);
    if (!tensors.contains(kind.name)) continue;
    const auto expected = tensors.at(kind.name);
    const auto ours = make_lpips(kind.name, at::kCPU)->forward(images, references);
    const double difference = ((ours - expected) / expected).abs().max().item<double>();
    for (int64_t i = 0; i < expected.numel(); ++i) {
      fmt::print("{} {}: ours {:.7f}, the package's {:.7f}\n", kind.name, i, ours[i].item<float>(),
                 expected[i].item<float>());
    }
    fmt::print("{}: largest relative difference {:.2g}\n", kind.name, difference);
    EXPECT_LT(difference, 1e-4);
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

}  // namespace
}  // namespace nsvq
