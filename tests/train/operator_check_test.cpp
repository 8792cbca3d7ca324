#include "nsvq/train/vq/operator_check.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/nn/named_tensors.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/tokenizer/open_model.h"
#include "nsvq/train/vq/drift.h"
#include "nsvq/train/vq/trainer.h"
#include "tests/error_of.h"
#include "tests/train/run_traces.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

constexpr int64_t kCheckDim = 8;

PathResult path_result() {
  return {torch::tensor({0, 0, 1, 1}, torch::kLong), torch::tensor(2.0f),
          torch::tensor({{1.0f}, {2.0f}, {2.0f}, {4.0f}}), torch::tensor({3.0f, 4.0f})};
}

/// Against path_result(), with codes at 0 and 1 on a line and latents of which the last is just
/// nearer to the second.
std::map<std::string, double> errors_of(const PathResult& fast) {
  const auto latents = torch::tensor({{0.0f}, {0.1f}, {0.9f}, {0.5001f}});
  return path_errors(fast, path_result(), latents, torch::tensor({{0.0f}, {1.0f}}));
}

TEST(Check, EqualPathsHaveNoError) {
  const auto errors = errors_of(path_result());
  EXPECT_EQ(errors.size(), 5u);
  for (const auto& [name, value] : errors) EXPECT_EQ(value, 0) << name;
  EXPECT_TRUE(operators_agree(errors));
}

TEST(Check, EachDifferenceIsSeenWhereItIs) {
  auto tie = path_result();
  tie.indices = torch::tensor({0, 0, 1, 0}, torch::kLong);
  const auto of_tie = errors_of(tie);
  EXPECT_EQ(of_tie.at("index_mismatch"), 0.25);
  EXPECT_NEAR(of_tie.at("code_distance_gap"), 8e-4, 1e-5);
  EXPECT_TRUE(operators_agree(of_tie)) << "a tie";

  auto wrong = path_result();
  wrong.indices = torch::tensor({0, 1, 1, 1}, torch::kLong);
  const auto of_wrong = errors_of(wrong);
  EXPECT_NEAR(of_wrong.at("code_distance_gap"), 1 - 0.01 / 0.81, 1e-5);
  EXPECT_FALSE(operators_agree(of_wrong));

  auto loss = path_result();
  loss.loss = torch::tensor(2.5f);
  const auto of_loss = errors_of(loss);
  EXPECT_NEAR(of_loss.at("loss_error"), 0.25, 1e-9);
  EXPECT_EQ(of_loss.at("latent_gradient_error"), 0);
  EXPECT_FALSE(operators_agree(of_loss));

  auto latents = path_result();
  latents.latent_gradient = -latents.latent_gradient;
  EXPECT_NEAR(errors_of(latents).at("latent_gradient_error"), 2, 1e-9);

  auto codebook = path_result();
  codebook.codebook_gradient = torch::tensor({3.0f, 5.0f});
  const auto of_codebook = errors_of(codebook);
  EXPECT_NEAR(of_codebook.at("codebook_gradient_error"), 0.2, 1e-9);
  EXPECT_FALSE(operators_agree(of_codebook));

  auto nan = path_result();
  nan.loss = torch::tensor(std::nanf(""));
  EXPECT_FALSE(operators_agree(errors_of(nan)));
}

TEST(Check, FiguresThatDoNotApplyAreAbsent) {
  auto fixed = path_result();
  fixed.codebook_gradient = torch::Tensor();
  const auto errors = path_errors(fixed, fixed, at::zeros({4, 1}), {});
  EXPECT_EQ(errors.size(), 3u);
  EXPECT_FALSE(errors.contains("code_distance_gap"));
  EXPECT_FALSE(errors.contains("codebook_gradient_error"));
}

TEST(Check, EveryQuantizersPathsAgreeAndNothingOfItChanges) {
  for (const auto& kind : quantizer_kinds()) {
    if (!kind.untrained.empty()) continue;
    SCOPED_TRACE(kind.name);
    torch::manual_seed(3);
    const auto recipe = tiny_config_of(kind.name);
    const auto& config = recipe.quantizer;
    const int64_t dimension = recipe.model.latent_dim;
    const auto live = make_quantizer(config, dimension);
    if (kind.name == "vqgan_lc") named_tensors(*live).at("features").normal_();
    const auto latents = at::randn({2, dimension, 5, 3});
    TensorMap before;
    for (const auto& [name, tensor] : named_tensors(*live)) before[name] = tensor.clone();
    const auto generator = at::detail::getDefaultCPUGenerator();
    const auto state = generator.get_state();

    OperatorCheck check(config, dimension, at::kCPU);
    const auto step = torch::zeros({}, torch::kLong);
    const auto errors = check.compare(*live, latents, {.step = step, .seed = step});

    EXPECT_TRUE(at::equal(generator.get_state(), state));
    for (const auto& [name, tensor] : named_tensors(*live)) {
      EXPECT_TRUE(at::equal(tensor, before.at(name))) << name;
      EXPECT_FALSE(tensor.grad().defined()) << name;
    }
    EXPECT_EQ(errors.contains("index_mismatch"), kind.tokens);
    if (kind.tokens) EXPECT_EQ(errors.at("index_mismatch"), 0);
    for (const auto& [name, value] : errors) EXPECT_LT(value, 1e-5) << name;
  }
}

TEST(Check, TheLiveWeightsAreCopiedAtEachComparison) {
  const auto config = tiny_config().quantizer;
  torch::manual_seed(3);
  OperatorCheck check(config, kCheckDim, at::kCPU);
  const auto live = make_quantizer(config, kCheckDim);
  const auto latents = at::randn({2, kCheckDim, 5, 3});
  EXPECT_NO_THROW(check.compare(*live, latents, {}));
  const torch::NoGradGuard no_grad;
  live->codebook().fill_(NAN);
  EXPECT_THROW(check.compare(*live, latents, {}), c10::Error);
}

TEST(Check, TakesNoMoreThan2048Latents) {
  const auto rows = at::arange(7000).unsqueeze(1);
  const auto some = spread_rows(rows, 2048);
  EXPECT_LE(some.size(0), 2048);
  EXPECT_GT(some.size(0), 1300);
  EXPECT_GT(some[-1].item<int64_t>(), 6990) << "spread over all";
  EXPECT_TRUE(at::equal(spread_rows(rows, 7000), rows));
}

TEST(Check, PlainOperatorsHaveNothingToCompare) {
  auto config = tiny_config().quantizer;
  config.operators = "plain";
  const auto error = error_of([&] { OperatorCheck(config, kCheckDim, at::kCPU); });
  EXPECT_NE(error.find("train.check"), error.npos) << error;
}

std::vector<nlohmann::json> without_checks(std::vector<nlohmann::json> lines) {
  std::erase_if(lines, [](const auto& line) { return line.at("kind") == "check"; });
  return lines;
}

TEST(CheckTraining, ARunWithChecksIsTheRunWithout) {
  const TemporaryFolder folder;
  auto config = tiny_config();
  config.quantizer.init = "data";
  config.adversarial.weight = 0.1;
  config.adversarial.width = 4;
  config.adversarial.layers = 1;
  Trainer(config, folder / "without", make_single_group()).loop().train();
  config.train.check = 1;
  Trainer(config, folder / "with", make_single_group()).loop().train();

  const auto lines = timeless_metrics(folder / "with");
  EXPECT_EQ(first_difference(timeless_metrics(folder / "without"), without_checks(lines)), "");
  const auto last = [&](const char* run) {
    return read_text(list_checkpoints(folder / run).back() / "training.safetensors");
  };
  EXPECT_TRUE(last("without") == last("with"));
  EXPECT_EQ(lines.size() - without_checks(lines).size(), 18u) << "one a step";
  for (const auto& line : lines) {
    if (line.at("kind") != "check") continue;
    EXPECT_LT(line.at("loss_error"), 1e-5) << line;
    EXPECT_LT(line.at("code_distance_gap"), 1e-4) << line;
    EXPECT_LT(line.at("index_mismatch"), 0.01) << line;
    EXPECT_TRUE(line.contains("codebook_gradient_error"));
  }
  EXPECT_NE(read_text(folder / "with/report.html").find("\"checks\":{\"count\":18,"),
            std::string::npos);
}

}  // namespace
}  // namespace nsvq
