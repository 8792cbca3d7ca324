#include "nsvq/train/vq/drift.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "nsvq/core/error.h"
#include "nsvq/core/precision.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/core/tensor_map.h"
#include "nsvq/losses/loss.h"
#include "nsvq/ops/code_statistics/effective_neighbours.h"
#include "nsvq/ops/code_statistics/spectrum.h"
#include "nsvq/quantizers/codebook.h"
#include "tests/train/every_quantizer.h"
#include "tests/train/tiny.h"
#include "tests/two_ranks.h"

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
  std::vector<std::string> names;
  for (const auto& [name, value] : values) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"centroid_distance", "codes_participation",
                                             "latent_norm", "latents_participation", "neighbours",
                                             "quantization_error", "relative_quantization_error"}));

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

TEST_F(DriftTest, WithNormalisedCodesItMeasuresWhatIsSearched) {
  config_.quantizer.normalise = true;
  model_ = Tokenizer(config_);
  auto drift = meter();
  const auto values = drift.measure(model_);
  const torch::NoGradGuard no_grad;
  const auto z = latents(), rows = flatten_latents(z);
  const auto unit = z / z.norm(2, 1, true), codes = model_->quantizer->code_vectors();
  const auto chosen = model_->quantizer->assign(z).latents;
  const double error = at::mse_loss(unit, chosen).item<double>();
  EXPECT_NEAR(values.at("quantization_error"), std::sqrt(error), 1e-5);
  EXPECT_NEAR(values.at("relative_quantization_error"), std::sqrt(error * 8), 1e-4);
  EXPECT_NEAR(drift.commitment(model_), error, 1e-6);
  EXPECT_NEAR(values.at("latent_norm"), rows.norm(2, 1).mean().item<double>(), 1e-5);
  EXPECT_NEAR(values.at("neighbours"),
              effective_neighbours(flatten_latents(unit), codes, config_.quantizer.tau)
                  .mean()
                  .item<double>(),
              1e-4);
  EXPECT_NEAR(values.at("latents_participation"),
              participation_ratio(covariance_spectrum(flatten_latents(unit))), 1e-5);
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

TEST_F(DriftTest, DirectionsAreThoseOfLatentsAndOfTheCodesThatAreSearched) {
  for (const std::string type : {"vq", "simvq"}) {
    SCOPED_TRACE(type);
    model_ = Tokenizer(tiny_config_of(type));
    auto drift = meter();
    const auto values = drift.measure(model_);
    const torch::NoGradGuard no_grad;
    const auto codes = model_->quantizer->code_vectors(), rows = flatten_latents(latents());
    for (const auto& [name, vectors] : {std::pair{"latents", rows}, {"codes", codes}}) {
      SCOPED_TRACE(name);
      const auto expected = covariance_spectrum(vectors);
      const auto& found = drift.spectra().at(std::string(name) + "_spectrum");
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-6) << i;
      EXPECT_NEAR(values.at(std::string(name) + "_participation"), participation_ratio(expected),
                  1e-5);
    }
  }
}

TEST_F(DriftTest, OfFewLatentsInManyDimensionsTheFirstSharesAreKept) {
  config_.model.latent_dim = 100;
  model_ = Tokenizer(config_);
  DriftMeter drift(images_.slice(0, 0, 1), 2, config_.quantizer.tau);
  const double ratio = drift.measure(model_).at("latents_participation");
  EXPECT_GE(ratio, 1);
  EXPECT_LE(ratio, 63) << "64 latents";
  for (const std::string name : {"latents_spectrum", "codes_spectrum"}) {
    const auto& shares = drift.spectra().at(name);
    EXPECT_EQ(shares.size(), 32u) << name;
    EXPECT_LE(std::accumulate(shares.begin(), shares.end(), 0.0), 1 + 1e-9) << name;
  }
}

/// Figures of codes are of those that can be listed, figures of tokens of models that have any.
TEST_F(DriftTest, EveryQuantizerIsMeasuredAsFarAsItHasCodes) {
  const TemporaryFolder folder;
  for (const auto& kind : quantizer_kinds()) {
    if (!kind.untrained.empty()) continue;
    SCOPED_TRACE(kind.name);
    const auto config = tiny_config_with_files(kind.name, folder.path());
    model_ = make_tokenizer(config, at::kCPU);
    model_->quantizer->begin();
    DriftMeter drift(images_, 2, config.quantizer.tau);
    drift.measure(model_);
    const auto values = drift.measure(model_);
    EXPECT_EQ(values.at("drift"), 0);
    EXPECT_EQ(values.at("relative_drift"), 0);
    EXPECT_GE(values.at("latents_participation"), 1);
    const bool tokens = model_->quantizer->codes() > 0;
    const bool listed = model_->quantizer->code_vectors().defined();
    EXPECT_EQ(tokens, kind.name != "none");
    for (const std::string name : {"churn", "quantization_error", "relative_quantization_error"}) {
      EXPECT_EQ(values.contains(name), tokens) << name;
    }
    for (const std::string name : {"centroid_distance", "neighbours", "codes_participation"}) {
      EXPECT_EQ(values.contains(name), listed) << name;
    }
    EXPECT_EQ(drift.spectra().contains("codes_spectrum"), listed);
    EXPECT_TRUE(drift.spectra().contains("latents_spectrum"));
    if (!tokens) continue;
    const Objective objective(config, model_, at::kCPU, make_single_group());
    const auto gap = straight_through_gap(model_, objective, images_);
    EXPECT_TRUE(std::isfinite(gap.at("ste_gap")));
    EXPECT_LE(std::abs(gap.at("ste_cosine")), 1 + 1e-9);
  }
}

TEST_F(DriftTest, RelativeFiguresDoNotDependOnTheScale) {
  const torch::NoGradGuard no_grad;
  auto drift = meter();
  drift.measure(model_);
  shift(at::full({8}, 0.25));
  const auto values = drift.measure(model_);
  const double size = latents().square().mean().sqrt().item<double>();
  for (const std::string name : {"drift", "quantization_error"}) {
    EXPECT_NEAR(values.at("relative_" + name), values.at(name) / size, 1e-6) << name;
  }
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
  EXPECT_FALSE(values.contains("codes_participation"));
  EXPECT_EQ(drift.spectra().size(), 1u);
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
    EXPECT_TRUE(drift.spectra().empty());
  }
  {
    const torch::NoGradGuard no_grad;
    bias.copy_(before);
  }
  shift(at::full({8}, 0.5));
  EXPECT_NEAR(drift.measure(model_).at("drift"), 0.5, 1e-6);
}

class StraightThroughGap : public DriftTest {
 protected:
  void SetUp() override {
    config_.loss.of<L1LossConfig>().weight = 0.7;
    config_.loss.of<L2LossConfig>().weight = 0.3;
    DriftTest::SetUp();
  }
  std::map<std::string, double> gap() {
    const Objective objective(config_, model_, at::kCPU, make_single_group());
    return straight_through_gap(model_, objective, images_);
  }
  /// The gradient at vectors for all images at once, plainly.
  torch::Tensor gradient(const torch::Tensor& vectors) {
    auto leaf = vectors.detach().clone().requires_grad_();
    const auto difference = model_->decoder->forward(leaf) - images_;
    (0.7 * difference.abs().mean() + 0.3 * difference.square().mean()).backward();
    model_->zero_grad();
    return leaf.grad().to(at::kDouble).flatten();
  }
};

TEST_F(StraightThroughGap, IsThatOfPlainGradients) {
  const auto z = latents();
  const auto own = gradient(z), given = gradient(model_->quantizer->assign(z).latents);
  const auto found = gap();
  EXPECT_EQ(found.size(), 2u);
  const double expected = ((given - own).norm() / own.norm()).item<double>();
  EXPECT_GT(expected, 0.01);
  EXPECT_NEAR(found.at("ste_gap"), expected, 1e-4 * expected);
  EXPECT_NEAR(found.at("ste_cosine"), at::cosine_similarity(own, given, 0).item<double>(), 1e-5);
}

TEST_F(StraightThroughGap, IsZeroWhereEveryLatentIsACode) {
  images_ = images_.slice(0, 0, 1);
  config_.quantizer.codes = 64;
  model_ = Tokenizer(config_);
  {
    const torch::NoGradGuard no_grad;
    model_->quantizer->codebook().copy_(flatten_latents(latents()));
  }
  const auto found = gap();
  EXPECT_NEAR(found.at("ste_gap"), 0, 1e-4) << "but for rounding";
  EXPECT_NEAR(found.at("ste_cosine"), 1, 1e-6);
}

TEST_F(StraightThroughGap, LeavesEverythingAsItWas) {
  const auto expected = gap();
  model_->precision = Precision::bf16;
  model_->encoder->recompute = model_->decoder->recompute = true;
  TensorMap before;
  for (const auto& [name, tensor] : named_tensors(*model_)) before[name] = tensor.clone();
  for (auto& parameter : model_->parameters()) parameter.mutable_grad() = at::ones_like(parameter);
  model_->decoder->parameters().front().mutable_grad() = torch::Tensor();
  const auto generator = at::globalContext().defaultGenerator(at::kCPU);
  const auto random = generator.get_state().clone();

  EXPECT_EQ(gap(), expected) << "in fp32, without recomputed levels";
  for (const auto ambient : {Precision::fp32, Precision::bf16}) {
    const AutocastGuard autocast(ambient, at::kCPU);
    gap();
    EXPECT_EQ(autocast_precision(at::kCPU), ambient);
  }
  EXPECT_TRUE(at::GradMode::is_enabled());
  EXPECT_TRUE(at::equal(generator.get_state(), random));
  EXPECT_TRUE(model_->is_training());
  EXPECT_EQ(model_->precision, Precision::bf16);
  EXPECT_TRUE(model_->encoder->recompute && model_->decoder->recompute);
  for (const auto& [name, tensor] : named_tensors(*model_)) {
    EXPECT_TRUE(at::equal(tensor, before.at(name))) << name;
  }
  int64_t without = 0;
  for (const auto& parameter : model_->parameters()) {
    EXPECT_TRUE(parameter.requires_grad());
    without += !parameter.grad().defined();
    if (!parameter.grad().defined()) continue;
    EXPECT_TRUE(at::equal(parameter.grad(), at::ones_like(parameter)));
  }
  EXPECT_EQ(without, 1);
}

TEST_F(StraightThroughGap, LatentsThatAreNotFiniteHaveNone) {
  shift(at::full({8}, double{NAN}));
  for (const auto& [name, value] : gap()) EXPECT_TRUE(std::isnan(value)) << name;
}

/// A model as a rank has it, with what measures it.
struct MeasuredModel {
  explicit MeasuredModel(const TokenizerConfig& config)
      : model(config),
        validation(config, model, make_single_group(), at::kCPU),
        objective(config, model, at::kCPU, make_single_group()),
        drift(config, validation, model, objective, at::kCPU) {}
  Tokenizer model;
  Validation validation;
  Objective objective;
  DriftMonitor drift;
};

/// The models differ here, so that more than rounding would part the ranks.
TEST_F(DriftTest, AllRanksFreezeByTheCommitmentOfTheFirst) {
  config_.schedule.commitment = "validation";
  config_.drift.images = 4;
  MeasuredModel first(config_), second(config_);
  const auto alone = make_single_group();
  const double own = first.drift.commitment(*alone);
  EXPECT_NE(second.drift.commitment(*alone), own);
  DriftMeter plain(first.validation.first_images(4), 3, config_.quantizer.tau);
  EXPECT_NEAR(plain.commitment(first.model), own, 1e-5 * own);
  on_two_ranks([&](int rank, Group& group) {
    EXPECT_EQ((rank == 0 ? first : second).drift.commitment(group), own) << rank;
  });
}

}  // namespace
}  // namespace nsvq
