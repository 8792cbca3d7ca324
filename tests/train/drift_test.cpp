#include "nsvq/train/vq/drift.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "nsvq/core/error.h"
#include "nsvq/core/tensor_map.h"
#include "nsvq/ops/code_statistics/effective_neighbours.h"
#include "nsvq/quantizers/codebook.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

class DriftTest : public testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(0);
    model_ = Tokenizer(config_);
    images_ = at::rand({5, 3, 16, 16}) * 2 - 1;
  }
  DriftMeter meter() const { return DriftMeter(images_, /*batch_size=*/2, config_.quantizer.tau); }
  torch::Tensor latents() {
    const torch::NoGradGuard no_grad;
    return model_->encoder->forward(images_);
  }
  /// Moves every latent by `offsets` [d].
  void shift(const torch::Tensor& offsets) {
    const torch::NoGradGuard no_grad;
    named_tensors(*model_).at("encoder.conv_out.bias").add_(offsets);
  }

  TokenizerConfig config_ = tiny_config();
  Tokenizer model_{nullptr};
  torch::Tensor images_;
};

TEST_F(DriftTest, TheFirstMeasurementHasNothingToCompareWith) {
  auto drift = meter();
  EXPECT_TRUE(drift.state().empty());
  const auto values = drift.measure(model_);
  EXPECT_EQ(values.size(), 4u);

  const torch::NoGradGuard no_grad;
  const auto z = latents(), rows = flatten_latents(z);
  const auto codes = model_->quantizer->decode(model_->quantizer->encode(z));
  EXPECT_NEAR(values.at("latent_norm"), rows.norm(2, 1).mean().item<double>(), 1e-5);
  EXPECT_NEAR(values.at("quantization_error"), at::mse_loss(z, codes).sqrt().item<double>(), 1e-5);
  EXPECT_NEAR(values.at("neighbours"),
              effective_neighbours(rows, model_->quantizer->codebook(), config_.quantizer.tau)
                  .mean()
                  .item<double>(),
              1e-4);
}

TEST_F(DriftTest, CentroidDistanceIsThatOfCodesToTheMeansOfTheirLatents) {
  const torch::NoGradGuard no_grad;
  auto drift = meter();
  const auto rows = flatten_latents(latents());
  const auto codebook = model_->quantizer->codebook();
  const auto indices = model_->quantizer->encode(latents()).flatten();
  double sum = 0;
  std::map<int64_t, torch::Tensor> means;
  for (int64_t code = 0; code < codebook.size(0); ++code) {
    const auto own = rows.index({indices == code});
    if (own.size(0) == 0) continue;
    means[code] = own.mean(0);
    sum += own.size(0) * (codebook[code] - means[code]).square().sum().item<double>();
  }
  EXPECT_NEAR(drift.measure(model_).at("centroid_distance"),
              std::sqrt(sum / static_cast<double>(rows.numel())), 1e-5);
  // One code for all latents, at their mean, is a fixed point.
  codebook.fill_(1e3);
  codebook[0].copy_(rows.mean(0));
  EXPECT_NEAR(drift.measure(model_).at("centroid_distance"), 0, 1e-5);
}

TEST_F(DriftTest, AnUnchangedModelDoesNotDrift) {
  auto drift = meter();
  drift.measure(model_);
  const auto values = drift.measure(model_);
  EXPECT_EQ(values.at("drift"), 0);
  EXPECT_EQ(values.at("churn"), 0);
}

TEST_F(DriftTest, AKnownShiftIsTheDrift) {
  auto drift = meter();
  drift.measure(model_);
  shift(at::full({8}, 0.25));
  EXPECT_NEAR(drift.measure(model_).at("drift"), 0.25, 1e-6);
  // One channel of eight moves by 2: sqrt(4 / 8). Drift is since the last measurement.
  auto offsets = at::zeros({8});
  offsets[3] = -2;
  shift(offsets);
  EXPECT_NEAR(drift.measure(model_).at("drift"), std::sqrt(0.5), 1e-6);
  EXPECT_EQ(drift.measure(model_).at("drift"), 0);
}

TEST_F(DriftTest, ChurnIsTheShareOfAssignmentsThatChanged) {
  auto drift = meter();
  drift.measure(model_);
  const auto before = model_->encode(images_);
  shift(at::randn({8}) * 0.2);
  const auto after = model_->encode(images_);
  const auto changed = before.ne(after).sum().item<double>();
  EXPECT_GT(changed, 0);
  EXPECT_LT(changed, before.numel());
  EXPECT_NEAR(drift.measure(model_).at("churn"), changed / before.numel(), 1e-12);
}

TEST_F(DriftTest, CodesThatMoveChurnWithoutDrift) {
  auto drift = meter();
  drift.measure(model_);
  {
    const torch::NoGradGuard no_grad;
    model_->quantizer->codebook().copy_(model_->quantizer->codebook().roll(1, 0));
  }
  const auto values = drift.measure(model_);
  EXPECT_EQ(values.at("drift"), 0);
  EXPECT_EQ(values.at("churn"), 1);
}

TEST_F(DriftTest, TheSizeOfBatchesDoesNotMatter) {
  auto pairs = meter(), whole = DriftMeter(images_, 100, config_.quantizer.tau);
  pairs.measure(model_);
  whole.measure(model_);
  shift(at::randn({8}) * 0.2);
  const auto expected = whole.measure(model_);
  for (const auto& [name, value] : pairs.measure(model_))
    EXPECT_NEAR(value, expected.at(name), 1e-5 * (1 + value)) << name;
}

TEST_F(DriftTest, ARestoredStateGoesOnBitForBit) {
  auto drift = meter();
  drift.measure(model_);
  auto restored = meter(), fresh = meter();
  restored.load(drift.state(), "run");
  fresh.load({}, "run");
  shift(at::randn({8}) * 0.2);
  const auto values = drift.measure(model_);
  EXPECT_GT(values.at("drift"), 0);
  EXPECT_EQ(restored.measure(model_), values);
  EXPECT_FALSE(fresh.measure(model_).contains("drift"));
  EXPECT_THROW(restored.load({{"latents", at::zeros({1})}}, "run"), UserError);
  restored.load({}, "run");
  EXPECT_FALSE(restored.measure(model_).contains("churn"));
}

TEST_F(DriftTest, AStateOfOtherImagesIsNotComparedWith) {
  auto fewer = DriftMeter(images_.slice(0, 0, 3), 2, config_.quantizer.tau);
  fewer.measure(model_);
  auto drift = meter();
  drift.load(fewer.state(), "run");
  EXPECT_FALSE(drift.measure(model_).contains("drift"));
  EXPECT_TRUE(drift.measure(model_).contains("drift"));
}

TEST_F(DriftTest, TrainingDoesNotNoticeIt) {
  TensorMap before;
  for (const auto& [name, tensor] : named_tensors(*model_)) before[name] = tensor.clone();
  const auto generator = at::globalContext().defaultGenerator(at::kCPU);
  const auto random = generator.get_state().clone();
  auto drift = meter();
  drift.measure(model_);
  drift.measure(model_);
  EXPECT_TRUE(at::equal(generator.get_state(), random));
  EXPECT_TRUE(model_->is_training());
  for (const auto& [name, tensor] : named_tensors(*model_)) {
    EXPECT_TRUE(at::equal(tensor, before.at(name))) << name;
    EXPECT_FALSE(tensor.grad().defined()) << name;
  }
  for (const auto& [name, tensor] : drift.state()) EXPECT_FALSE(tensor.requires_grad()) << name;
}

// 12,800 latents, of which every fourth would do: every fifth also changes columns.
TEST_F(DriftTest, NeighboursOfManyLatentsAreAnEvenSample) {
  const auto many = at::rand({200, 3, 16, 16}) * 2 - 1;
  DriftMeter drift(many, 64, config_.quantizer.tau);
  const auto sampled = drift.measure(model_).at("neighbours");
  const torch::NoGradGuard no_grad;
  const auto all = effective_neighbours(flatten_latents(model_->encoder->forward(many)),
                                        model_->quantizer->codebook(), config_.quantizer.tau);
  const auto fifth = all.slice(0, 0, all.size(0), 5).mean().item<double>();
  EXPECT_NEAR(sampled, fifth, 1e-5 * fifth);
  EXPECT_GT(std::abs(fifth - all.mean().item<double>()), 1e-4 * fifth);  // It tells them apart.
}

/// The sign of the first channel as index: a quantizer without a codebook.
class SignQuantizer : public Quantizer {
 public:
  torch::Tensor decode(const torch::Tensor& indices) override {
    return (indices * 2 - 1).to(at::kFloat).unsqueeze(1).expand({-1, 8, -1, -1});
  }
  int64_t codes() const override { return 2; }

 protected:
  Quantized quantize_wide(const torch::Tensor&, const QuantizerStep&) override { return {}; }
  torch::Tensor encode_wide(const torch::Tensor& latents) override {
    return latents.select(1, 0).gt(0).to(at::kLong);
  }
};

TEST_F(DriftTest, WithoutACodebookThereAreNoNeighbours) {
  model_->quantizer = std::make_shared<SignQuantizer>();
  auto drift = meter();
  const auto values = drift.measure(model_);
  EXPECT_FALSE(values.contains("neighbours"));
  const auto z = latents();
  EXPECT_NEAR(values.at("quantization_error"),
              (z - z.select(1, 0).unsqueeze(1).sign()).square().mean().sqrt().item<double>(), 1e-5);
}

TEST_F(DriftTest, LatentsThatAreNotFiniteArePassedOver) {
  auto drift = meter();
  drift.measure(model_);
  auto bias = named_tensors(*model_).at("encoder.conv_out.bias");
  const auto before = bias.detach().clone();
  for (const double value : {double{NAN}, double{INFINITY}}) {
    shift(at::full({8}, value));
    const auto values = drift.measure(model_);
    EXPECT_EQ(values.size(), 1u);
    EXPECT_TRUE(std::isnan(values.at("latent_norm")));
  }
  {
    const torch::NoGradGuard no_grad;
    bias.copy_(before);
  }
  shift(at::full({8}, 0.5));
  EXPECT_NEAR(drift.measure(model_).at("drift"), 0.5, 1e-6);
}

}  // namespace
}  // namespace nsvq
