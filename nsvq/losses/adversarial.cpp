#include "nsvq/losses/adversarial.h"

#include <torch/csrc/autograd/autograd.h>

#include "nsvq/core/lookup.h"

namespace nsvq {

namespace {

using torch::Tensor;

constexpr double kLecamDecay = 0.999;
constexpr double kLeastNorm = 1e-4;

Tensor non_saturating_generator(const Tensor& fake) {
  TORCH_CHECK(fake.dim() == 4, "generator_loss: needs logits [B, 1, h, w], got ", fake.sizes());
  return at::softplus(-fake.mean({1, 2, 3})).mean();
}

Tensor hinge_generator(const Tensor& fake) { return -fake.mean(); }

Tensor hinge_discriminator(const Tensor& real, const Tensor& fake) {
  return 0.5 * (at::relu(1 - real).mean() + at::relu(1 + fake).mean());
}

Tensor vanilla_discriminator(const Tensor& real, const Tensor& fake) {
  return 0.5 * (at::softplus(-real).mean() + at::softplus(fake).mean());
}

template <typename Function>
struct Kind {
  const char* name;
  Function function;
};

constexpr Kind<Tensor (*)(const Tensor&)> kGeneratorLosses[] = {
    {"non_saturating", non_saturating_generator},
    {"hinge", hinge_generator},
};

constexpr Kind<Tensor (*)(const Tensor&, const Tensor&)> kDiscriminatorLosses[] = {
    {"hinge", hinge_discriminator},
    {"vanilla", vanilla_discriminator},
};

void move_towards(Tensor& average, const Tensor& logits) {
  const auto mean = logits.mean(at::kDouble).to(average.device());
  const auto moved = average * kLecamDecay + mean * (1 - kLecamDecay);
  average.copy_(at::where(mean.isfinite(), moved, average));
}

Tensor gradient_norm(const Tensor& loss, const Tensor& parameter) {
  return torch::autograd::grad({loss}, {parameter}, {}, /*retain_graph=*/true).at(0).norm();
}

}  // namespace

std::vector<Option> adversarial_options(AdversarialConfig& adversarial) {
  const std::vector<Option> rows = {
      {"adversarial.weight", &adversarial.weight,
       "weight of the adversarial loss; 0: no discriminator", Range::between(0, 1e9)},
      {"adversarial.adaptive", &adversarial.adaptive,
       "scale that weight by the ratio of the gradients at the decoder's last layer",
       Range::yes_no()},
      {"adversarial.most_ratio", &adversarial.most_ratio,
       "adaptive: the largest ratio that counts; while a new discriminator is at chance, its "
       "gradient is small and the ratio large",
       Range::between(1e-30, 1e30)},
      {"adversarial.start_step", &adversarial.start_step,
       "steps before the discriminator and its loss set in", Range::at_least(0)},
      {"adversarial.generator_loss", &adversarial.generator_loss,
       "what the generator minimises: softplus(-logit) or -logit",
       Range::one_of(names_of(kGeneratorLosses))},
      {"adversarial.discriminator_loss", &adversarial.discriminator_loss,
       "the discriminator's loss", Range::one_of(names_of(kDiscriminatorLosses))},
      {"adversarial.lecam", &adversarial.lecam, "weight of the LeCAM regulariser; 0: off",
       Range::at_least(0)},
  };
  return joined({rows, discriminator_options(adversarial)});
}

Tensor generator_loss(const std::string& kind, const Tensor& fake_logits) {
  const auto& loss = find_named(kGeneratorLosses, "loss", kind, "adversarial.generator_loss");
  return loss.function(fake_logits);
}

Tensor discriminator_loss(const std::string& kind, const Tensor& real_logits,
                          const Tensor& fake_logits) {
  const auto& loss =
      find_named(kDiscriminatorLosses, "loss", kind, "adversarial.discriminator_loss");
  return loss.function(real_logits, fake_logits);
}

Lecam::Lecam() {
  ema_real_ = register_buffer("ema_real", at::zeros({}, at::kDouble));
  ema_fake_ = register_buffer("ema_fake", at::zeros({}, at::kDouble));
}

void Lecam::update(const Tensor& real_logits, const Tensor& fake_logits) {
  const torch::NoGradGuard no_grad;
  move_towards(ema_real_, real_logits);
  move_towards(ema_fake_, fake_logits);
}

Tensor Lecam::penalty(const Tensor& real_logits, const Tensor& fake_logits) const {
  // Zero-dimensional fp64 tensors do not promote fp32 logits.
  return at::relu(real_logits - ema_fake_).square().mean() +
         at::relu(ema_real_ - fake_logits).square().mean();
}

Tensor adaptive_weight(const Tensor& reconstruction_loss, const Tensor& adversarial_loss,
                       const Tensor& last_layer, double most, const Tensor& scale) {
  const auto norm = [&](const Tensor& loss) {
    if (!scale.defined()) return gradient_norm(loss, last_layer);
    return gradient_norm(loss * scale, last_layer) / scale;
  };
  const auto ratio = norm(reconstruction_loss) / (norm(adversarial_loss) + kLeastNorm);
  return ratio.clamp(0, most).detach();
}

}  // namespace nsvq
