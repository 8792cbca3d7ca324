// Training in bf16, fp16 and TF32.

#include "nsvq/core/precision.h"

#include <gtest/gtest.h>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/train/vq/trainer.h"
#include "tests/error_of.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

double psnr_after(TokenizerConfig config, const std::string& precision,
                  const std::filesystem::path& run) {
  config.train.precision = precision;
  return Trainer(config, run, make_single_group()).loop().train().evaluation.at("psnr");
}

TEST(TrainingPrecision, Bf16LearnsAsFp32Does) {
  const TemporaryFolder folder;
  auto config = tiny_config();
  config.adversarial.weight = 0.1;
  config.adversarial.layers = 1;
  config.adversarial.width = 8;
  const double fp32 = psnr_after(config, "fp32", folder / "fp32");
  const double bf16 = psnr_after(config, "bf16", folder / "bf16");
  EXPECT_NE(fp32, bf16) << "nothing was rounded";
  EXPECT_NEAR(fp32, bf16, 0.7);
}

TEST(TrainingPrecision, WeightsAndLatentsStayFp32) {
  auto config = tiny_config();
  config.train.precision = "bf16";
  auto model = make_tokenizer(config, at::kCPU);
  const auto images = at::rand({2, 3, 16, 16}) * 2 - 1;
  EXPECT_EQ(model->to_latents(images).scalar_type(), at::kFloat);
  EXPECT_EQ(model->decode(model->encode(images)).scalar_type(), at::kFloat);
  for (const auto& parameter : model->parameters()) {
    EXPECT_EQ(parameter.scalar_type(), at::kFloat);
  }
  model->to_latents(images).sum().backward();
  for (const auto& parameter : model->encoder->parameters()) {
    EXPECT_EQ(parameter.grad().scalar_type(), at::kFloat);
  }
}

TEST(TrainingPrecision, RoundingEndsWithItsScope) {
  const auto a = at::full({2, 2}, 1.001), b = at::eye(2);
  {
    const AutocastGuard autocast(Precision::bf16, at::kCPU);
    EXPECT_EQ(at::mm(a, b).scalar_type(), at::kBFloat16);
    const AutocastGuard none(Precision::fp32, at::kCPU);
    EXPECT_EQ(at::mm(a, b).scalar_type(), at::kFloat);
  }
  EXPECT_EQ(at::mm(a, b).scalar_type(), at::kFloat);
}

TEST(TrainingPrecision, ACpuTrainsInFp32AndBf16AndUsesModelsOfAny) {
  EXPECT_EQ(choose_precision("auto", at::kCPU), Precision::fp32);
  EXPECT_EQ(choose_precision("auto", at::kCUDA), Precision::bf16);
  auto config = tiny_config();
  for (const auto* precision : {"fp16", "tf32"}) {
    config.train.precision = precision;
    const auto message = error_of([&] { make_tokenizer(config, at::kCPU); });
    EXPECT_NE(message.find("train.precision"), std::string::npos) << message;
    Tokenizer trained(config);
    move_to_device(trained, config, at::kCPU);
    EXPECT_EQ(trained->precision, Precision::fp32);
  }
}

}  // namespace
}  // namespace nsvq
